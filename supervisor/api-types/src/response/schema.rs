//! OpenAPI schemas of the protocol crate's types, which does not depend on utoipa: the agent
//! is built from it too, and is to stay small.

use utoipa::openapi::schema::{
    ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};

/// Names of `outcome::Status`.
const STATUSES: [&str; 6] = ["ok", "error", "timed_out", "interrupted", "killed", "rejected"];

/// Names of `outcome::Cause`.
const CAUSES: [&str; 16] = [
    "memory_limit",
    "cpu_limit",
    "pids_limit",
    "disk_limit",
    "wall_time",
    "signal",
    "exited",
    "protocol",
    "interrupt",
    "reset",
    "deleted",
    "draining",
    "queue_full",
    "kernel_start",
    "agent",
    "unknown",
];

/// Names of `policy::Network`.
const NETWORKS: [&str; 3] = ["none", "loopback", "full"];

/// Names of `layer::Status`.
const LAYER_STATUSES: [&str; 4] = ["enforced", "partial", "unavailable", "off"];

/// Names of `outcome::DisplayKind`.
const DISPLAY_KINDS: [&str; 5] = ["display", "update", "clear", "image", "video_frame"];

/// Names of `message::Origin`.
const ORIGINS: [&str; 2] = ["executed", "forked"];

/// Names of `message::FileKind`.
const FILE_KINDS: [&str; 4] = ["file", "directory", "link", "other"];

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn names<const N: usize>(names: [&'static str; N]) -> ObjectBuilder {
    text().enum_values(Some(names))
}

fn nullable(builder: ObjectBuilder, kind: Type) -> ObjectBuilder {
    builder.schema_type(SchemaType::from_iter([kind, Type::Null]))
}

/// Schema of [`vivarium_protocol::outcome::Status`].
pub(crate) fn status_schema() -> Schema {
    names(STATUSES).into()
}

/// Schema of [`vivarium_protocol::message::FileKind`].
pub(crate) fn file_kind_schema() -> Schema {
    names(FILE_KINDS).into()
}

/// Schema of [`vivarium_protocol::outcome::State`].
pub(crate) fn state_schema() -> Schema {
    names(["preserved", "lost"]).into()
}

/// Schema of [`vivarium_protocol::outcome::Cause`].
pub(crate) fn cause_schema() -> Schema {
    let values = CAUSES.map(Some).into_iter().chain([None]);
    nullable(ObjectBuilder::new().enum_values(Some(values)), Type::String).into()
}

/// The same where there always is one.
pub(super) fn some_cause_schema() -> Schema {
    names(CAUSES).into()
}

/// Schema of [`vivarium_protocol::policy::Network`].
pub(crate) fn network_schema() -> Schema {
    names(NETWORKS).into()
}

/// Schema of [`vivarium_protocol::outcome::DisplayKind`].
pub(crate) fn display_kind_schema() -> Schema {
    names(DISPLAY_KINDS).into()
}

pub(super) fn exception_schema() -> Schema {
    let object = ObjectBuilder::new()
        .property("type", text())
        .property("message", text())
        .property("traceback", text())
        .required("type")
        .required("message")
        .required("traceback");
    nullable(object, Type::Object).into()
}

/// Schema of [`vivarium_protocol::message::Origin`], where there may be none.
pub(super) fn origin_schema() -> Schema {
    let values = ORIGINS.map(Some).into_iter().chain([None]);
    nullable(ObjectBuilder::new().enum_values(Some(values)), Type::String).into()
}

pub(super) fn protection_schema() -> Schema {
    let report = ObjectBuilder::new()
        .property("layer", text())
        .property("status", names(LAYER_STATUSES))
        .property("detail", text())
        .property("fix", text())
        .required("layer")
        .required("status")
        .required("detail")
        .required("fix");
    ArrayBuilder::new().items(report).into()
}

/// Schema of [`vivarium_protocol::units::Limit`].
pub(crate) fn limit_schema() -> Schema {
    number_or_unlimited(Type::Integer, 1.0)
}

/// Schema of [`crate::Cores`].
pub(crate) fn cores_schema() -> Schema {
    number_or_unlimited(Type::Number, 0.01)
}

fn number_or_unlimited(kind: Type, minimum: f64) -> Schema {
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(kind).minimum(Some(minimum)))
        .item(names(["unlimited"]))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use vivarium_protocol::{layer, message, outcome, policy};

    fn every_name_is<T: for<'a> Deserialize<'a>>(names: &[&str]) {
        for name in names {
            let value = serde_json::Value::String((*name).to_owned());
            assert!(serde_json::from_value::<T>(value).is_ok(), "{name}");
        }
        let error = serde_json::from_str::<T>("\"nonsense\"").err().unwrap().to_string();
        assert_eq!(error.matches('`').count(), 2 * names.len() + 2, "{error}");
    }

    #[test]
    fn the_lists_of_names_are_the_protocols() {
        every_name_is::<outcome::Status>(&STATUSES);
        every_name_is::<outcome::Cause>(&CAUSES);
        every_name_is::<outcome::DisplayKind>(&DISPLAY_KINDS);
        every_name_is::<message::FileKind>(&FILE_KINDS);
        every_name_is::<message::Origin>(&ORIGINS);
        every_name_is::<policy::Network>(&NETWORKS);
        every_name_is::<layer::Status>(&LAYER_STATUSES);
    }
}
