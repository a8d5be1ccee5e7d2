//! The contract between the supervisor and the agent.
//!
//! Both sides are built from this crate, so a message can not mean two things. It holds types
//! and pure functions, but for [`stream`]: no file, clock or process is touched here.
//!
//! | module | what it holds |
//! |---|---|
//! | [`units`] | limits that can be `unlimited`, and never zero |
//! | [`layer`] | the sandbox's layers, their order, and what can be reported of each |
//! | [`leaf`] | the cgroup leaves of a session, and its contexts |
//! | [`egress`] | how a session of network `trusted` reaches the egress gate |
//! | [`passt`] | how a session of network `full` reaches out through passt |
//! | [`policy`] | what a session may use, and its validation |
//! | [`runtime`] | the programs that are kernels |
//! | [`message`] | messages between supervisor, agent, launcher and zygote |
//! | [`frame`] | length-prefixed encoding with a maximum |
//! | [`stream`] | messages over a Unix socket, with descriptors alongside |
//! | [`content`] | the chunks of an upload or archive |
//! | [`sequence`] | which message may come next |
//! | [`outcome`] | how an execution ended |
//! | [`places`] | how requests name files |
//! | [`one_python`] | the `python` and `pip` that a session finds on its PATH |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod clock;
pub mod content;
mod discard;
pub mod egress;
mod error_chain;
pub mod frame;
pub mod image;
pub mod layer;
pub mod leaf;
pub mod message;
pub mod one_python;
pub mod outcome;
pub mod passt;
pub mod places;
pub mod policy;
pub mod port;
pub mod runtime;
pub mod sequence;
pub mod stream;
pub mod units;

pub use discard::discard;
pub use error_chain::error_chain;

/// The version of this contract. A supervisor and an agent of different versions refuse each
/// other by name at the first message.
pub const PROTOCOL_VERSION: u32 = 15;

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::de::DeserializeOwned;
    use strum::VariantNames;

    use crate::layer;
    use crate::message::{FileKind, Origin};
    use crate::outcome::{Cause, DisplayKind, State, Status};
    use crate::policy::Network;
    use crate::runtime::Runtime;

    fn agree<T: VariantNames + DeserializeOwned + Debug + Into<&'static str>>() {
        for name in T::VARIANTS {
            let parsed: T = serde_json::from_value((*name).into()).unwrap();
            assert_eq!(parsed.into(), *name);
        }
    }

    #[test]
    fn names_of_variants_are_those_of_their_json() {
        agree::<Status>();
        agree::<Cause>();
        agree::<State>();
        agree::<DisplayKind>();
        agree::<FileKind>();
        agree::<Origin>();
        agree::<Network>();
        agree::<Runtime>();
        agree::<layer::Status>();
    }
}
