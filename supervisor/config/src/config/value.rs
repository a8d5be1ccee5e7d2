//! A setting's value as written, and its conversion to the type of the setting.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;
use vivarium_protocol::policy::CpuCores;
use vivarium_protocol::units::{Limit, LimitError, UNLIMITED};

use crate::config::duration;

/// The zero that some durations accept.
pub(crate) const NO_TIME: &str = "0s";

/// Why a value does not fit its key. The caller adds the key and the origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("wants {wanted}, not the {found}")]
    Type {
        wanted: &'static str,
        /// The value as TOML.
        found: String,
    },
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error(transparent)]
    Duration(#[from] duration::DurationError),
    /// The type fits, the value does not.
    #[error("{0}")]
    Unfit(String),
}

/// A value from any source.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Integer(i64),
    Bool(bool),
    /// A number with a fraction.
    Float(f64),
    Text(String),
    List(Vec<Self>),
    /// In the order of its keys.
    Table(Vec<(String, Self)>),
    /// Something no key takes (a date), as text for the message.
    Other(String),
}

impl Value {
    /// The value of a parsed TOML document. A number that does not fit is kept as
    /// [`Value::Other`], so that it is refused with its own text.
    pub(crate) fn from_toml(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| Self::Other(format!("integer {number}")), Self::Integer),
            DeValue::Float(number) => number
                .as_str()
                .parse()
                .map_or_else(|_| Self::Other(format!("float {number}")), Self::Float),
            DeValue::Boolean(value) => Self::Bool(*value),
            DeValue::Datetime(value) => Self::Other(format!("date {value}")),
            DeValue::Array(items) => {
                Self::List(items.iter().map(|item| Self::from_toml(item.get_ref())).collect())
            }
            DeValue::Table(table) => Self::Table(
                table
                    .iter()
                    .map(|(key, value)| {
                        (key.get_ref().to_string(), Self::from_toml(value.get_ref()))
                    })
                    .collect(),
            ),
        }
    }

    pub(crate) fn is_true(&self) -> Result<bool, ValueError> {
        match self {
            Self::Bool(value) => Ok(*value),
            other => Err(other.not("true or false")),
        }
    }

    pub(crate) fn text(&self) -> Result<&str, ValueError> {
        match self {
            Self::Text(text) => Ok(text),
            other => Err(other.not("a string")),
        }
    }

    pub(crate) fn texts(&self) -> Result<Vec<&str>, ValueError> {
        match self {
            Self::List(items) => items.iter().map(Self::text).collect(),
            other => Err(other.not("a list of strings")),
        }
    }

    pub(crate) fn table(&self) -> Result<&[(String, Self)], ValueError> {
        match self {
            Self::Table(entries) => Ok(entries),
            other => Err(other.not("a table")),
        }
    }

    pub(crate) fn tables(&self) -> Result<Vec<&[(String, Self)]>, ValueError> {
        match self {
            Self::List(items) => items.iter().map(Self::table).collect(),
            other => Err(other.not("a list of tables")),
        }
    }

    /// A positive whole number.
    pub(crate) fn count(&self) -> Result<u64, ValueError> {
        match self {
            Self::Integer(number) => u64::try_from(*number)
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| ValueError::Unfit(format!("{number} is not a positive integer"))),
            other => Err(other.not("a positive integer")),
        }
    }

    /// A positive whole number or 0.
    pub(crate) fn count_or_zero(&self) -> Result<u64, ValueError> {
        match self {
            Self::Integer(0) => Ok(0),
            other => other.count(),
        }
    }

    /// A number above 0, up to 1.
    pub(crate) fn share(&self) -> Result<f64, ValueError> {
        let share = match self {
            Self::Integer(1) => 1.0,
            Self::Float(share) => *share,
            other => return Err(other.not("a number above 0, up to 1")),
        };
        if share > 0.0 && share <= 1.0 {
            Ok(share)
        } else {
            Err(ValueError::Unfit(format!("{self} is not above 0 and up to 1")))
        }
    }

    /// A positive whole number or `unlimited`.
    pub(crate) fn limit(&self) -> Result<Limit, ValueError> {
        match self {
            Self::Text(text) => Ok(text.parse()?),
            Self::Integer(number) => match u64::try_from(*number) {
                Ok(number) => Ok(Limit::new(number)?),
                Err(_) => Err(LimitError::NotALimit(number.to_string()).into()),
            },
            other => Err(other.not("a positive integer or \"unlimited\"")),
        }
    }

    /// A number of cores, in thousandths at the finest, or `unlimited`.
    pub(crate) fn cores(&self) -> Result<CpuCores, ValueError> {
        const WANTED: &str = "a number of cores such as 0.5, or \"unlimited\"";
        let cores = match self {
            Self::Text(text) if text == UNLIMITED => return Ok(CpuCores::UNLIMITED),
            Self::Integer(number) => number.to_string().parse::<f64>().unwrap_or(f64::NAN),
            Self::Float(number) => *number,
            other => return Err(other.not(WANTED)),
        };
        // Through text, which unlike a cast can not wrap or truncate in silence.
        let milli = format!("{:.0}", cores * 1000.0).parse::<u32>().ok();
        // The kernel takes no less than 1 ms of a period of 100 (`min_cfs_quota_period`).
        match milli.filter(|milli| *milli >= 10) {
            Some(milli) => Ok(CpuCores { milli: Some(milli) }),
            None => Err(ValueError::Unfit(format!(
                "{self} is not a number of cores: from 0.01, or \"unlimited\""
            ))),
        }
    }

    /// A duration with its unit.
    pub(crate) fn duration(&self) -> Result<Duration, ValueError> {
        match self {
            Self::Text(text) => Ok(duration::parse(text)?),
            other => Err(other.not("a duration with its unit, such as \"30s\"")),
        }
    }

    /// A duration with its unit, or `0s`.
    pub(crate) fn duration_or_zero(&self) -> Result<Duration, ValueError> {
        match self {
            Self::Text(text) if text == NO_TIME => Ok(Duration::ZERO),
            other => other.duration(),
        }
    }

    /// A duration with its unit, or `unlimited`.
    pub(crate) fn duration_or_unlimited(&self) -> Result<Option<Duration>, ValueError> {
        match self {
            Self::Text(text) if text == UNLIMITED => Ok(None),
            other => other.duration().map(Some),
        }
    }

    /// An absolute path without `..`.
    pub(crate) fn path(&self) -> Result<PathBuf, ValueError> {
        absolute(self.text()?)
    }

    /// A list of absolute paths without `..`.
    pub(crate) fn paths(&self) -> Result<Vec<PathBuf>, ValueError> {
        self.texts()?.into_iter().map(absolute).collect()
    }

    fn not(&self, wanted: &'static str) -> ValueError {
        let found = match self {
            Self::Integer(_) => format!("integer {self}"),
            Self::Bool(_) => format!("boolean {self}"),
            Self::Float(_) => format!("float {self}"),
            Self::Text(_) => format!("string {self}"),
            Self::List(_) => format!("list {self}"),
            Self::Table(_) => "table".to_owned(),
            Self::Other(text) => text.clone(),
        };
        ValueError::Type { wanted, found }
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Integer(number) => (*number).into(),
            Self::Bool(value) => (*value).into(),
            Self::Float(number) => (*number).into(),
            Self::Text(text) | Self::Other(text) => text.as_str().into(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Table(entries) => {
                entries.iter().map(|(key, value)| (key.clone(), value.to_json())).collect()
            }
        }
    }
}

/// The value as TOML.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(number) => number.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Text(text) => toml::Value::from(text.as_str()).fmt(f),
            Self::Other(text) => f.write_str(text),
            Self::List(items) => {
                f.write_str("[")?;
                for (index, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if index > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Self::Table(entries) => {
                f.write_str("{")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    let before = if index > 0 { "," } else { "" };
                    write!(f, "{before} {} = {value}", toml::Value::from(key.as_str()))?;
                }
                f.write_str(" }")
            }
        }
    }
}

/// Refuses a path that depends on the working directory or climbs.
fn absolute(text: &str) -> Result<PathBuf, ValueError> {
    let path = PathBuf::from(text);
    let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
    if path.is_absolute() && !climbs && !text.contains('\0') {
        Ok(path)
    } else {
        Err(ValueError::Unfit(format!("{text:?} is not an absolute path without \"..\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_exact_thousandths() {
        assert_eq!(Value::Float(0.5).cores().unwrap().milli, Some(500));
        assert_eq!(Value::Integer(2).cores().unwrap().milli, Some(2000));
        assert_eq!(Value::Text("unlimited".into()).cores().unwrap(), CpuCores::UNLIMITED);
        for bad in [Value::Integer(0), Value::Float(0.009), Value::Float(f64::NAN)] {
            assert!(bad.cores().is_err(), "{bad}");
        }
        assert!(Value::Float(1e12).cores().is_err());
    }

    #[test]
    fn text_is_shown_as_toml_that_reads_back() {
        let text = "a \"quoted\" back\\slash\nand line";
        let shown = Value::Text(text.into()).to_string();
        let parsed = DeValue::parse(&shown).unwrap();
        assert_eq!(Value::from_toml(parsed.get_ref()), Value::Text(text.into()));
    }

    #[test]
    fn relative_and_climbing_paths_are_refused() {
        assert!(Value::Text("/a/b".into()).path().is_ok());
        for bad in ["", "a", "./a", "/a/../b"] {
            assert!(Value::Text(bad.into()).path().is_err(), "{bad}");
        }
    }
}
