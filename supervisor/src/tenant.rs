//! Tenants: who they are, told by their tokens. What they may use is in [`crate::settings`].

mod token;

pub use token::{Token, TokenError, TokenHash};
