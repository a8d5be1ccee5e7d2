//! OpenAPI schemas of the protocol crate's types, which does not depend on utoipa: the agent
//! is built from it too, and is to stay small.

use strum::VariantNames;
use utoipa::openapi::schema::{
    ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use vivarium_protocol::layer;
use vivarium_protocol::message::{FileKind, Origin};
use vivarium_protocol::outcome::{Cause, DisplayKind, State, Status};
use vivarium_protocol::policy::Network;

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn names(names: &[&'static str]) -> ObjectBuilder {
    text().enum_values(Some(names.iter().copied()))
}

fn names_or_null(names: &[&'static str]) -> Schema {
    let values = names.iter().copied().map(Some).chain([None]);
    nullable(ObjectBuilder::new().enum_values(Some(values)), Type::String).into()
}

fn nullable(builder: ObjectBuilder, kind: Type) -> ObjectBuilder {
    builder.schema_type(SchemaType::from_iter([kind, Type::Null]))
}

/// Schema of [`vivarium_protocol::outcome::Status`].
pub(crate) fn status_schema() -> Schema {
    names(Status::VARIANTS).into()
}

/// Schema of [`vivarium_protocol::message::FileKind`].
pub(crate) fn file_kind_schema() -> Schema {
    names(FileKind::VARIANTS).into()
}

/// Schema of [`vivarium_protocol::outcome::State`].
pub(crate) fn state_schema() -> Schema {
    names(State::VARIANTS).into()
}

/// Schema of [`vivarium_protocol::outcome::Cause`].
pub(crate) fn cause_schema() -> Schema {
    names_or_null(Cause::VARIANTS)
}

/// The same where there always is one.
pub(super) fn some_cause_schema() -> Schema {
    names(Cause::VARIANTS).into()
}

/// Schema of [`vivarium_protocol::policy::Network`].
pub(crate) fn network_schema() -> Schema {
    names(Network::VARIANTS).into()
}

/// Schema of [`vivarium_protocol::outcome::DisplayKind`].
pub(crate) fn display_kind_schema() -> Schema {
    names(DisplayKind::VARIANTS).into()
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
    names_or_null(Origin::VARIANTS)
}

pub(super) fn protection_schema() -> Schema {
    let report = ObjectBuilder::new()
        .property("layer", text())
        .property("status", names(layer::Status::VARIANTS))
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
        .item(names(&["unlimited"]))
        .into()
}
