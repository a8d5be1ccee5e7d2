//! The egress gate's parsers of what sessions send.

pub mod client_hello;
pub mod head;
