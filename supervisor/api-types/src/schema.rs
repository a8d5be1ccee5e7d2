//! OpenAPI schemas of the protocol crate's types, whose names come from strum and serde.
//!
//! utoipa's derive in that crate, behind a feature, would not give the same document. Inlined, it
//! makes a required field with a description an `allOf` of a string and an object, which no value
//! satisfies, and an optional one a `oneOf`; not inlined, every type becomes a component.

use strum::VariantNames;
use utoipa::openapi::schema::{
    ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use vivarium_protocol::layer::Status;

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn one_of(names: &[&'static str]) -> ObjectBuilder {
    text().enum_values(Some(names.iter().copied()))
}

/// One of the names of `T`'s variants.
pub(crate) fn names<T: VariantNames>() -> Schema {
    one_of(T::VARIANTS).into()
}

/// One of the names of `T`'s variants, or null.
pub(crate) fn names_or_null<T: VariantNames>() -> Schema {
    let values = T::VARIANTS.iter().copied().map(Some).chain([None]);
    nullable(ObjectBuilder::new().enum_values(Some(values)), Type::String).into()
}

fn nullable(builder: ObjectBuilder, kind: Type) -> ObjectBuilder {
    builder.schema_type(SchemaType::from_iter([kind, Type::Null]))
}

/// An object that always has these members.
fn object<const N: usize>(members: [(&str, ObjectBuilder); N]) -> ObjectBuilder {
    members.into_iter().fold(ObjectBuilder::new(), |object, (name, schema)| {
        object.property(name, schema).required(name)
    })
}

/// [`vivarium_protocol::message::Stream`]
pub(crate) fn stream() -> Schema {
    one_of(&["stdout", "stderr"]).into()
}

/// [`vivarium_protocol::outcome::Exception`], or null.
pub(crate) fn exception() -> Schema {
    let object = object([("type", text()), ("message", text()), ("traceback", text())]);
    nullable(object, Type::Object).into()
}

/// A list of [`vivarium_protocol::layer::Report`].
pub(crate) fn protection() -> Schema {
    let status = one_of(Status::VARIANTS);
    let report =
        object([("layer", text()), ("status", status), ("detail", text()), ("fix", text())]);
    ArrayBuilder::new().items(report).into()
}

/// [`crate::MimeBundle`]
pub(crate) fn mime_bundle() -> Schema {
    let about = "Representations by MIME type: text as it is, everything else in base64";
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(about))
        .additional_properties(Some(Schema::from(text())))
        .into()
}

/// The changes to a session's metadata.
pub(crate) fn metadata_patch() -> Schema {
    let about = "Keys to set, or to remove where the value is null. Null in place of the object \
                 removes all.";
    let value = nullable(ObjectBuilder::new(), Type::String);
    let object = ObjectBuilder::new().additional_properties(Some(Schema::from(value)));
    nullable(object, Type::Object).description(Some(about)).into()
}

/// [`crate::Sizes`]
pub(crate) fn sizes() -> Schema {
    let about = "Size of each representation by MIME type, decoded, in bytes";
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(about))
        .additional_properties(Some(Schema::from(ObjectBuilder::new().schema_type(Type::Integer))))
        .into()
}

/// Counts by name.
pub(crate) fn counts() -> Schema {
    let about = "How often each audit event of Python was raised";
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(about))
        .additional_properties(Some(Schema::from(ObjectBuilder::new().schema_type(Type::Integer))))
        .into()
}

/// [`vivarium_protocol::units::Limit`]
pub(crate) fn limit() -> Schema {
    number_or_unlimited(Type::Integer, 1.0)
}

/// [`crate::Cores`]
pub(crate) fn cores() -> Schema {
    number_or_unlimited(Type::Number, 0.01)
}

/// [`crate::PolicyValue`]
pub(crate) fn policy_value() -> Schema {
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(Type::Number))
        .item(text())
        .item(ArrayBuilder::new().items(text()))
        .description(Some("The value, as it is configured"))
        .into()
}

fn number_or_unlimited(kind: Type, minimum: f64) -> Schema {
    OneOfBuilder::new()
        .item(ObjectBuilder::new().schema_type(kind).minimum(Some(minimum)))
        .item(one_of(&["unlimited"]))
        .into()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use vivarium_protocol::layer::{Layer, Report};
    use vivarium_protocol::outcome::Exception;

    use super::*;

    /// Whether the schema describes exactly the members of the value.
    fn describes(schema: &Value, value: &Value) -> bool {
        let members: Vec<_> = value.as_object().unwrap().keys().collect();
        let described: Vec<_> = schema["properties"].as_object().unwrap().keys().collect();
        members == described && schema["required"].as_array().unwrap().len() == members.len()
    }

    #[test]
    fn schemas_describe_the_members_that_serde_writes() {
        let exception = Exception {
            type_name: String::new(),
            message: String::new(),
            traceback: String::new(),
        };
        let schema = serde_json::to_value(super::exception()).unwrap();
        let value = serde_json::to_value(exception).unwrap();
        assert!(describes(&schema, &value), "{schema} {value}");
        let schema = serde_json::to_value(protection()).unwrap();
        let report = serde_json::to_value(Report::enforced(Layer::Mounts, "")).unwrap();
        assert!(describes(&schema["items"], &report), "{schema} {report}");
        assert!(!describes(&schema["items"], &json!({"layer": "", "status": ""})));
    }
}
