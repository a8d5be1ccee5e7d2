//! What the configuration uses of the engine.

mod floor;
mod plain_name;

pub use floor::too_low;
pub use plain_name::is_plain_name;
