//! JSON Schema, as far as the parameters of tools need it.
//!
//! A schema with a keyword that is not checked here is refused when it is declared: nothing is let through
//! unchecked. `$ref` leads only into the schema itself. Checking is bounded in steps and depth, and patterns
//! run in linear time, without back references or look-around (`regex`). Never fetches anything.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde_json::Value;

mod check;

use check::{Check, Violation};

/// The most bytes of a schema.
pub(crate) const MAX_SCHEMA_BYTES: usize = 64 << 10;

/// How deep a schema may be nested, and how many references lead from one to the next.
const MAX_DEPTH: usize = 64;

/// The most bytes of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// The most patterns of a schema.
const MAX_PATTERNS: usize = 64;

/// Keywords that say something to readers only.
const ANNOTATIONS: [&str; 11] = [
    "$comment",
    "$schema",
    "$id",
    "title",
    "description",
    "default",
    "examples",
    "format",
    "deprecated",
    "readOnly",
    "writeOnly",
];

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "integer", "string"];

#[derive(Debug)]
pub(crate) struct Schema {
    root: Value,
    patterns: BTreeMap<String, Regex>,
}

impl Schema {
    /// A schema from its text.
    ///
    /// # Errors
    /// With where and why, if it is none that can be checked.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(format!("it is over the maximum of {MAX_SCHEMA_BYTES} bytes"));
        }
        let root: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Value::Object(members) = &root else { return Err("it is no object".to_owned()) };
        if let Some(other) = members.get("type").filter(|it| *it != "object") {
            return Err(format!("its type is {other}, and arguments are an \"object\""));
        }
        let mut schema = Self { root: Value::Null, patterns: BTreeMap::new() };
        schema.admit(&root, &root, "", 0)?;
        schema.root = root;
        Ok(schema)
    }

    /// Whether arguments are what it says.
    ///
    /// # Errors
    /// With where and why, if not.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        match Check::of(self).apply(&self.root, value, "", 0) {
            Ok(()) => Ok(()),
            Err(Violation::Invalid(why)) => Err(why),
            Err(Violation::TooMuch) => {
                Err(format!("its check takes more than {} steps", check::MAX_STEPS))
            }
        }
    }

    /// Refuses what [`Self::check`] would not understand.
    fn admit(
        &mut self,
        root: &Value,
        schema: &Value,
        at: &str,
        depth: usize,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("{at}: it is nested more than {MAX_DEPTH} deep"));
        }
        let members = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(members) => members,
            _ => return Err(format!("{at}: a schema is an object or a boolean")),
        };
        for (keyword, value) in members {
            let at = format!("{at}/{keyword}");
            let wrong = |what: &str| Err(format!("{at}: {what}"));
            match keyword.as_str() {
                "type" => {
                    let is_type = |it: &Value| it.as_str().is_some_and(|it| TYPES.contains(&it));
                    let is_fine = match value {
                        Value::Array(types) => types.iter().all(is_type),
                        one => is_type(one),
                    };
                    if !is_fine {
                        return wrong("no such type");
                    }
                }
                "properties" | "$defs" | "definitions" => {
                    let Value::Object(of) = value else { return wrong("give an object") };
                    for (name, schema) in of {
                        self.admit(root, schema, &format!("{at}/{name}"), depth + 1)?;
                    }
                }
                "additionalProperties" | "items" | "not" => {
                    self.admit(root, value, &at, depth + 1)?;
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                    let Value::Array(of) = value else { return wrong("give an array") };
                    for (index, schema) in of.iter().enumerate() {
                        self.admit(root, schema, &format!("{at}/{index}"), depth + 1)?;
                    }
                }
                "required" => {
                    if !value.as_array().is_some_and(|of| of.iter().all(Value::is_string)) {
                        return wrong("give an array of names");
                    }
                }
                "enum" => {
                    if !value.is_array() {
                        return wrong("give an array");
                    }
                }
                "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                    if !value.is_number() {
                        return wrong("give a number");
                    }
                }
                "multipleOf" => {
                    if !value.as_f64().is_some_and(|it| it > 0.0) {
                        return wrong("give a number above 0");
                    }
                }
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
                | "maxProperties" => {
                    if !value.is_u64() {
                        return wrong("give a count");
                    }
                }
                "uniqueItems" => {
                    if !value.is_boolean() {
                        return wrong("give a boolean");
                    }
                }
                "pattern" => match value.as_str().map(|pattern| self.add_pattern(pattern)) {
                    Some(Ok(())) => {}
                    Some(Err(why)) => return wrong(&why),
                    None => return wrong("give a string"),
                },
                "$ref" => {
                    let target = value.as_str().and_then(|reference| resolve(root, reference));
                    if target.is_none() {
                        return wrong("it leads to nothing in this schema: give \"#/$defs/NAME\"");
                    }
                }
                "const" => {}
                known if ANNOTATIONS.contains(&known) => {}
                _ => return wrong("this keyword can not be checked"),
            }
        }
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &str) -> Result<(), String> {
        if self.patterns.len() >= MAX_PATTERNS {
            return Err(format!("there are more than {MAX_PATTERNS} patterns"));
        }
        let built = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build();
        let regex = built.map_err(|error| error.to_string())?;
        self.patterns.insert(pattern.to_owned(), regex);
        Ok(())
    }
}

/// What a reference leads to: the schema itself, or one of its definitions.
fn resolve<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    let path = reference.strip_prefix('#')?;
    root.pointer(path)
}

#[cfg(test)]
mod tests;
