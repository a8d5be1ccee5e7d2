//! Limits: a positive number or, spelled out, `unlimited`. Zero is refused everywhere.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The word that lifts a limit, in configuration files and requests.
pub const UNLIMITED: &str = "unlimited";

/// A limit in whatever unit its field's name says.
///
/// In JSON and TOML it is a positive integer or the string `"unlimited"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// At most this many.
    At(NonZeroU64),
    /// No limit of ours; the host's own still apply.
    Unlimited,
}

/// Why a number or word is not a [`Limit`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Zero would mean "nothing at all" to some and "no limit" to others.
    #[error("0 is not a limit: give a positive number, or \"unlimited\"")]
    Zero,
    /// Neither a positive integer nor the word.
    #[error("{0:?} is neither a positive integer nor \"unlimited\"")]
    NotALimit(String),
}

impl Limit {
    /// A limit of `value`, refusing zero.
    ///
    /// # Errors
    /// [`LimitError::Zero`] if `value` is 0.
    pub fn new(value: u64) -> Result<Self, LimitError> {
        NonZeroU64::new(value).map(Self::At).ok_or(LimitError::Zero)
    }

    /// The number, if there is one.
    #[must_use]
    pub const fn get(self) -> Option<u64> {
        match self {
            Self::At(value) => Some(value.get()),
            Self::Unlimited => None,
        }
    }

    /// The number times `unit`, saturating, if there is one (mebibytes to bytes, and so on).
    #[must_use]
    pub const fn times(self, unit: u64) -> Option<u64> {
        match self {
            Self::At(value) => Some(value.get().saturating_mul(unit)),
            Self::Unlimited => None,
        }
    }

    /// Whether this limit allows no more than `other` does.
    #[must_use]
    pub const fn is_within(self, other: Self) -> bool {
        match (self, other) {
            (_, Self::Unlimited) => true,
            (Self::Unlimited, Self::At(_)) => false,
            (Self::At(mine), Self::At(theirs)) => mine.get() <= theirs.get(),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(value) => value.fmt(f),
            Self::Unlimited => f.write_str(UNLIMITED),
        }
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == UNLIMITED {
            return Ok(Self::Unlimited);
        }
        text.parse::<u64>().map_or_else(|_| Err(LimitError::NotALimit(text.to_owned())), Self::new)
    }
}

impl Serialize for Limit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return self.get().serialize(serializer);
        }
        match self {
            Self::At(value) => serializer.serialize_u64(value.get()),
            Self::Unlimited => serializer.serialize_str(UNLIMITED),
        }
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return match Option::<u64>::deserialize(deserializer)? {
                None => Ok(Self::Unlimited),
                Some(value) => Self::new(value).map_err(de::Error::custom),
            };
        }
        deserializer.deserialize_any(LimitVisitor)
    }
}

struct LimitVisitor;

impl de::Visitor<'_> for LimitVisitor {
    type Value = Limit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a positive integer or \"unlimited\"")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Limit, E> {
        Limit::new(value).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Limit, E> {
        u64::try_from(value)
            .map_err(|_| E::custom(LimitError::NotALimit(value.to_string())))
            .and_then(|value| self.visit_u64(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Limit, E> {
        if value == UNLIMITED {
            Ok(Limit::Unlimited)
        } else {
            Err(E::custom(LimitError::NotALimit(value.to_owned())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_refused_in_every_form() {
        assert_eq!(Limit::new(0), Err(LimitError::Zero));
        assert_eq!("0".parse::<Limit>(), Err(LimitError::Zero));
        assert!(serde_json::from_str::<Limit>("0").is_err());
        assert!(
            postcard::from_bytes::<Limit>(&postcard::to_stdvec(&Some(0_u64)).unwrap()).is_err()
        );
    }

    #[test]
    fn json_and_wire_forms_survive_the_round_trip() {
        for limit in [Limit::Unlimited, Limit::new(1).unwrap(), Limit::new(u64::MAX).unwrap()] {
            let json = serde_json::to_string(&limit).unwrap();
            assert_eq!(serde_json::from_str::<Limit>(&json).unwrap(), limit);
            let wire = postcard::to_stdvec(&limit).unwrap();
            assert_eq!(postcard::from_bytes::<Limit>(&wire).unwrap(), limit);
        }
    }

    #[test]
    fn a_limit_tightens_but_never_widens() {
        let ten = Limit::new(10).unwrap();
        assert!(Limit::new(9).unwrap().is_within(ten));
        assert!(!Limit::Unlimited.is_within(ten));
        assert!(ten.is_within(Limit::Unlimited));
    }

    #[test]
    fn negative_and_fractional_numbers_are_refused() {
        assert!(serde_json::from_str::<Limit>("-1").is_err());
        assert!(serde_json::from_str::<Limit>("1.5").is_err());
        assert!(serde_json::from_str::<Limit>("\"lots\"").is_err());
    }
}
