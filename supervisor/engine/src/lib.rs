//! Everything Vivarium does, without HTTP: sessions and what they share.
//!
//! It is trusted, runs as an ordinary user, and never runs tenant code itself: it only executes
//! `vivarium-agent`. It must never contain unsafe code, believe a kernel, or fork itself.

#![forbid(unsafe_code)]

pub mod approvals;
mod artefacts;
pub mod backend;
mod backoff;
pub mod budget;
pub mod cgroup;
mod code_policy;
mod descriptors;
pub mod egress;
mod engine;
mod images;
mod latest;
pub mod media;
pub mod memory;
pub mod observe;
pub mod off_thread;
pub mod passt;
pub mod pools;
mod private_dir;
pub mod quotas;
pub mod recover;
mod recv;
pub mod session;
pub mod settings;
mod storage_helper;
pub mod stores;
pub mod template;
mod tool_servers;
pub mod usage;

pub use code_policy::contradictions;
#[cfg(any(test, feature = "testing"))]
pub use engine::testing;
pub use engine::{
    Created, DEFAULT_ENVIRONMENT, DEFAULT_TENANT, Engine, EngineError, ExecutionHandle,
    ExecutionOptions, IdempotencyKey, Owner, ResponseMode, Round, StartError, Stdin, Undelivered,
    Upload, below_floor, is_valid_id, too_low,
};
pub use images::portable::Portable;
pub use images::{ImageKeyError, check_image_key};
