//! What the configuration uses of the engine.

mod floor;
mod valid_id;

pub use floor::too_low;
pub use valid_id::is_valid_id;
