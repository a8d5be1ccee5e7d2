//! What a session may reach outside, and what supervisor and egress gate say to each other.
//!
//! Both sides are built from this crate. It holds types and pure functions: nothing here connects or
//! resolves, only [`bucket`] reads a clock, and only [`slots`] waits.
//!
//! | module | what it holds |
//! |---|---|
//! | [`name`] | host names in the one form that is compared |
//! | [`address`] | which addresses are refused, and networks that an operator allows |
//! | [`allow`] | the entries of an allow-list |
//! | [`bucket`] | a rate, held exactly |
//! | [`rules`] | what one session may do: allow-list, addresses, limits, secrets |
//! | [`decision`] | what the gate decided, and why |
//! | [`slots`] | places that tenants share, so that none can take all |
//! | [`message`] | messages between supervisor and gate |
//! | [`wire`] | these messages on a Unix socket, with descriptors alongside |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod address;
pub mod allow;
pub mod bucket;
pub mod decision;
pub mod message;
pub mod name;
pub mod rules;
pub mod slots;
pub mod wire;

pub use address::{AddressClass, Network, class, refused_networks};
pub use allow::Allow;
pub use bucket::{Bucket, Grant, Rate, Wait};
pub use decision::{Decided, Decision, Reason, Via};
pub use message::{FromGate, ToGate};
pub use name::{Host, Name};
pub use rules::{Limits, Rules, Secret, Unlisted};
pub use slots::{Slot, Slots};
