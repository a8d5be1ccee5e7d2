//! The package index that sessions install from: the simple API (PEP 503, PEP 691, PEP 658) of wheels in
//! directories of the operator's, and of an upstream index.
//!
//! Part of the egress gate, which alone reaches upstream; what connects there is its [`Fetch`]. What comes from
//! upstream is hashed while it is written, and is served only once it is what the index's page says. No path
//! is made of what a session asks for: it names an entry of a page, or nothing.
//!
//! | module | what it holds |
//! |---|---|
//! | [`name`] | names of projects and files |
//! | [`hash`] | what the bytes of a file have to be |
//! | [`url`] | addresses upstream, and what they refer to |
//! | [`page`] | a project's page, read and written |
//! | [`links`] | directories of wheels |
//! | [`fetch`] | how upstream is asked |
//! | [`source`] | where a tenant's packages come from |
//! | [`cache`] | files from upstream, on disk, by tenant |
//! | [`index`] | requests and answers |
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod cache;
pub mod fetch;
pub mod hash;
pub mod index;
pub mod links;
pub mod name;
pub mod page;
mod pages;
pub mod source;
mod turns;
pub mod url;

pub use cache::Cache;
pub use fetch::{Fetch, FetchError, Fetched};
pub use index::{Answer, Content, Index};
pub use source::{Login, Source};
pub use url::Url;

/// The name under which sessions find the index. Reserved: it never resolves, and only the gate answers.
pub const HOST: &str = "packages.vivarium.internal";
