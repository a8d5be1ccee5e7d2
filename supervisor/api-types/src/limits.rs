//! The limits of a session: what a request may tighten, what a reply shows, and how both relate to
//! the session's policy. The compiler holds this table to the policy's [`Limits`], and tests hold
//! the configuration's keys and the Python client to it.

use std::fmt::Display;

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;
use vivarium_protocol::policy::Limits;
use vivarium_protocol::units::Limit;

use super::Cores;
use super::schema;

macro_rules! limits {
    ($($doc:literal $name:ident: $type:ident, $schema:ident;)+) => {
        /// Limits to tighten. Each is a positive integer or `"unlimited"`.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct LimitsSpec {
            $(
                #[doc = $doc]
                #[serde(skip_serializing_if = "Option::is_none")]
                #[schema(schema_with = schema::$schema)]
                pub $name: Option<$type>,
            )+
        }

        /// The same, of which none may be null.
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct GivenLimits {
            $(#[serde(deserialize_with = "given")] $name: Option<$type>,)+
        }

        impl Default for GivenLimits {
            fn default() -> Self {
                Self { $($name: None,)+ }
            }
        }

        impl From<GivenLimits> for LimitsSpec {
            fn from(given: GivenLimits) -> Self {
                Self { $($name: given.$name,)+ }
            }
        }

        /// The limits of a session: each a positive integer or `"unlimited"`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub struct LimitsInfo {
            $(
                #[doc = $doc]
                #[schema(schema_with = schema::$schema)]
                pub $name: $type,
            )+
        }

        impl From<Limits> for LimitsInfo {
            fn from(limits: Limits) -> Self {
                Self { $($name: limits.$name.into(),)+ }
            }
        }

        impl LimitsSpec {
            /// The configured limits, raised to these where these are more.
            #[must_use]
            pub fn raise(self, configured: &Limits) -> Limits {
                Limits { $($name: raise(configured.$name.into(), self.$name),)+ }
            }

            /// These limits, tightened by those. `whose` says in an error where they come from.
            ///
            /// # Errors
            /// The name of the first limit that is more than it is in `limits`, and the reason.
            pub fn tighten(
                self,
                limits: &Limits,
                whose: &str,
            ) -> Result<Limits, (&'static str, String)> {
                Ok(Limits {
                    $($name: tighten(stringify!($name), limits.$name.into(), self.$name, whose)?,)+
                })
            }

            /// What a session has to be asked for to have these limits, as far as the configured ones
            /// allow that.
            #[must_use]
            pub fn of(limits: &Limits, configured: &Limits) -> Self {
                Self {
                    $($name: {
                        let limit: $type = limits.$name.into();
                        let most: $type = configured.$name.into();
                        limit.is_within(most).then_some(limit)
                    },)+
                }
            }

            /// What each limit is, by its name.
            pub const DESCRIPTIONS: &[(&str, &str)] = &[$((stringify!($name), $doc),)+];

            /// The names of the limits that differ between two sessions' limits.
            #[must_use]
            pub fn differing(one: &Limits, other: &Limits) -> Vec<&'static str> {
                let pairs = [$((stringify!($name), one.$name == other.$name),)+];
                pairs.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
            }
        }
    };
}

limits! {
    "Memory of the whole session, in MiB." max_memory_mb: Limit, limit;
    "CPU time of one execution, in seconds." max_cpu_secs: Limit, limit;
    "Processes and threads." max_procs: Limit, limit;
    "Open file descriptors per process." max_open_fds: Limit, limit;
    "Largest file, in MiB." max_file_size_mb: Limit, limit;
    "Workdir and temporary files together, in MiB." max_disk_mb: Limit, limit;
    "Files, directories and links together." max_inodes: Limit, limit;
    "CPU cores, such as 0.5." cpu_cores: Cores, cores;
    "Bytes kept of each of stdout and stderr, per execution."
        max_output_bytes: Limit, limit;
    "Bytes of results, displays and files, per execution." max_result_bytes: Limit, limit;
}

/// What is there, for a member that may not be null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

trait Within: Copy + Display {
    fn is_within(self, other: Self) -> bool;
}

impl Within for Limit {
    fn is_within(self, other: Self) -> bool {
        Self::is_within(self, other)
    }
}

impl Within for Cores {
    fn is_within(self, other: Self) -> bool {
        let milli = |cores: Self| cores.0.milli.unwrap_or(u32::MAX);
        milli(self) <= milli(other)
    }
}

fn raise<T: Within + Into<U>, U>(configured: T, asked: Option<T>) -> U {
    asked.filter(|asked| configured.is_within(*asked)).unwrap_or(configured).into()
}

fn tighten<T: Within + Into<U>, U>(
    name: &'static str,
    most: T,
    asked: Option<T>,
    whose: &str,
) -> Result<U, (&'static str, String)> {
    match asked {
        Some(asked) if !asked.is_within(most) => {
            Err((name, format!("{asked} is more than the {most} that {whose}")))
        }
        asked => Ok(asked.unwrap_or(most).into()),
    }
}
