//! Applying a schema to a value.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::{MAX_DEPTH, Schema, resolve};
use crate::session::calls::MAX_CALL_DEPTH;

/// The most schemas that are applied, and values compared, in one check.
pub(super) const MAX_STEPS: usize = 200_000;

/// Why a value is not accepted.
#[derive(Debug)]
pub(super) enum Violation {
    Invalid(String),
    /// It can not be told in as many steps as a check may take.
    TooMuch,
}

pub(super) type Checked = Result<(), Violation>;

pub(super) struct Check<'a> {
    schema: &'a Schema,
    steps: usize,
}

impl<'a> Check<'a> {
    pub(super) const fn of(schema: &'a Schema) -> Self {
        Self { schema, steps: 0 }
    }

    fn step(&mut self) -> Checked {
        self.steps += 1;
        if self.steps > MAX_STEPS { Err(Violation::TooMuch) } else { Ok(()) }
    }

    pub(super) fn apply(
        &mut self,
        schema: &Value,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Checked {
        self.step()?;
        if depth > MAX_DEPTH + MAX_CALL_DEPTH {
            return Err(Violation::TooMuch);
        }
        let members = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(members) => members,
            _ => return invalid(at, "it may not be there"),
        };
        for (keyword, rule) in members {
            self.keyword(members, (keyword, rule), value, at, depth)?;
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        members: &Map<String, Value>,
        (keyword, rule): (&str, &Value),
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Checked {
        match (keyword, value) {
            ("type", _) => {
                let is_it = |name: &Value| name.as_str().is_some_and(|name| is_of(value, name));
                let is_fine =
                    rule.as_array().map_or_else(|| is_it(rule), |of| of.iter().any(is_it));
                ensure(is_fine, at, || format!("it is not of type {rule}"))
            }
            ("const", _) => {
                let is_it = self.equal(rule, value)?;
                ensure(is_it, at, || "it is not the one value that it may be".to_owned())
            }
            ("enum", _) => {
                for one in rule.as_array().into_iter().flatten() {
                    if self.equal(one, value)? {
                        return Ok(());
                    }
                }
                invalid(at, "it is none of the values that it may be")
            }
            ("$ref", _) => {
                let schema = self.schema;
                let target = rule.as_str().and_then(|it| resolve(&schema.root, it));
                target.map_or(Ok(()), |target| self.apply(target, value, at, depth + 1))
            }
            ("allOf", _) => {
                for one in rule.as_array().into_iter().flatten() {
                    self.apply(one, value, at, depth + 1)?;
                }
                Ok(())
            }
            ("anyOf", _) => {
                let count = self.count(rule, value, at, depth)?;
                ensure(count > 0, at, || "it is none of what it may be".to_owned())
            }
            ("oneOf", _) => {
                let count = self.count(rule, value, at, depth)?;
                ensure(count == 1, at, || format!("it is {count} of what it may be one of"))
            }
            ("not", _) => {
                let accepted = self.accepts(rule, value, at, depth)?;
                ensure(!accepted, at, || "it is what it may not be".to_owned())
            }
            (_, Value::Object(object)) => {
                self.of_object(members, (keyword, rule), object, at, depth)
            }
            (_, Value::Array(array)) => self.of_array(members, (keyword, rule), array, at, depth),
            (_, Value::String(text)) => self.of_string((keyword, rule), text, at),
            (_, Value::Number(number)) => of_number((keyword, rule), number, at),
            _ => Ok(()),
        }
    }

    fn accepts(
        &mut self,
        schema: &Value,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Result<bool, Violation> {
        match self.apply(schema, value, at, depth + 1) {
            Ok(()) => Ok(true),
            Err(Violation::Invalid(_)) => Ok(false),
            Err(Violation::TooMuch) => Err(Violation::TooMuch),
        }
    }

    fn count(
        &mut self,
        schemas: &Value,
        value: &Value,
        at: &str,
        depth: usize,
    ) -> Result<usize, Violation> {
        let mut count = 0;
        for one in schemas.as_array().into_iter().flatten() {
            count += usize::from(self.accepts(one, value, at, depth)?);
        }
        Ok(count)
    }

    fn of_object(
        &mut self,
        members: &Map<String, Value>,
        (keyword, rule): (&str, &Value),
        object: &Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Checked {
        match keyword {
            "required" => {
                let names = rule.as_array().into_iter().flatten().filter_map(Value::as_str);
                match names.into_iter().find(|name| !object.contains_key(*name)) {
                    Some(name) => invalid(at, &format!("{name:?} is missing")),
                    None => Ok(()),
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().into_iter().flatten() {
                    if let Some(value) = object.get(name) {
                        self.apply(schema, value, &below(at, name), depth + 1)?;
                    }
                }
                Ok(())
            }
            "additionalProperties" => {
                let known = members.get("properties").and_then(Value::as_object);
                for (name, value) in object {
                    if known.is_some_and(|known| known.contains_key(name)) {
                        continue;
                    }
                    if *rule == Value::Bool(false) {
                        return invalid(at, &format!("{:?} is not known", shortened(name)));
                    }
                    self.apply(rule, value, &below(at, name), depth + 1)?;
                }
                Ok(())
            }
            "minProperties" | "maxProperties" => within((keyword, rule), object.len(), at),
            _ => Ok(()),
        }
    }

    fn of_array(
        &mut self,
        members: &Map<String, Value>,
        (keyword, rule): (&str, &Value),
        array: &[Value],
        at: &str,
        depth: usize,
    ) -> Checked {
        match keyword {
            "prefixItems" => {
                let schemas = rule.as_array().into_iter().flatten();
                for (index, (schema, value)) in schemas.zip(array).enumerate() {
                    self.apply(schema, value, &format!("{at}[{index}]"), depth + 1)?;
                }
                Ok(())
            }
            "items" => {
                let before =
                    members.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
                for (index, value) in array.iter().enumerate().skip(before) {
                    self.apply(rule, value, &format!("{at}[{index}]"), depth + 1)?;
                }
                Ok(())
            }
            "minItems" | "maxItems" => within((keyword, rule), array.len(), at),
            "uniqueItems" if *rule == Value::Bool(true) => {
                for (index, one) in array.iter().enumerate() {
                    for other in array.iter().take(index) {
                        if self.equal(one, other)? {
                            return invalid(at, "two of its items are equal");
                        }
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn of_string(&mut self, (keyword, rule): (&str, &Value), text: &str, at: &str) -> Checked {
        match keyword {
            "minLength" | "maxLength" => within((keyword, rule), text.chars().count(), at),
            "pattern" => {
                let pattern = rule.as_str().and_then(|it| self.schema.patterns.get(it));
                let is_fine = pattern.is_some_and(|pattern| pattern.is_match(text));
                ensure(is_fine, at, || format!("it does not match {rule}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether two values are equal as JSON Schema has it: 1 and 1.0 are.
    fn equal(&mut self, one: &Value, other: &Value) -> Result<bool, Violation> {
        self.step()?;
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => {
                Ok(compare(one, other) == Some(Ordering::Equal))
            }
            (Value::Array(one), Value::Array(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (one, other) in one.iter().zip(other) {
                    if !self.equal(one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(one), Value::Object(other)) => {
                if one.len() != other.len() {
                    return Ok(false);
                }
                for (name, value) in one {
                    let is_equal = match other.get(name) {
                        Some(other) => self.equal(value, other)?,
                        None => false,
                    };
                    if !is_equal {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ => Ok(one == other),
        }
    }
}

fn of_number((keyword, rule): (&str, &Value), number: &Number, at: &str) -> Checked {
    let Value::Number(bound) = rule else { return Ok(()) };
    let Some(order) = compare(number, bound) else { return Ok(()) };
    let is_fine = match keyword {
        "minimum" => order != Ordering::Less,
        "maximum" => order != Ordering::Greater,
        "exclusiveMinimum" => order == Ordering::Greater,
        "exclusiveMaximum" => order == Ordering::Less,
        "multipleOf" => is_multiple(number, bound),
        _ => true,
    };
    ensure(is_fine, at, || format!("it is not within {keyword} {bound}"))
}

/// A name of the value's own, for a message.
fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

fn below(at: &str, name: &str) -> String {
    if at.is_empty() { shortened(name) } else { format!("{at}.{}", shortened(name)) }
}

fn invalid(at: &str, why: &str) -> Checked {
    let at = if at.is_empty() { "the arguments" } else { at };
    Err(Violation::Invalid(format!("{at}: {why}")))
}

fn ensure(is_fine: bool, at: &str, why: impl FnOnce() -> String) -> Checked {
    if is_fine { Ok(()) } else { invalid(at, &why()) }
}

fn within((keyword, rule): (&str, &Value), count: usize, at: &str) -> Checked {
    let (bound, count) = (rule.as_u64().unwrap_or(0), count as u64);
    let is_fine = if keyword.starts_with("min") { count >= bound } else { count <= bound };
    ensure(is_fine, at, || format!("it is not within {keyword} {bound}"))
}

fn is_of(value: &Value, name: &str) -> bool {
    match value {
        Value::Null => name == "null",
        Value::Bool(_) => name == "boolean",
        Value::Object(_) => name == "object",
        Value::Array(_) => name == "array",
        Value::String(_) => name == "string",
        Value::Number(number) => name == "number" || (name == "integer" && is_whole(number)),
    }
}

fn is_whole(number: &Number) -> bool {
    whole(number).is_some() || number.as_f64().is_some_and(|it| it.fract() == 0.0)
}

fn whole(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn is_multiple(number: &Number, of: &Number) -> bool {
    match (whole(number), whole(of)) {
        (Some(number), Some(of)) => of != 0 && number % of == 0,
        _ => match (number.as_f64(), of.as_f64()) {
            (Some(number), Some(of)) => {
                let times = number / of;
                (times - times.round()).abs() < 1e-9
            }
            _ => false,
        },
    }
}
