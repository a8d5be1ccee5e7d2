//! A number of cores: `0.5`, `2`, or `"unlimited"`. And maps without duplicate keys, which JSON
//! allows and of which serde would silently keep the last.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use vivarium_protocol::policy::CpuCores;
use vivarium_protocol::units::UNLIMITED;

/// A number of cores in requests, responses and flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores(pub CpuCores);

/// Not a number of cores.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is neither a number of cores from 0.01 to 4000000 nor \"unlimited\"")]
pub struct CoresError(String);

impl Cores {
    /// Thousandths below which a quota would be less than the kernel's minimum of 1 ms per
    /// period of 100 ms (`kernel/sched/core.c`, `min_cfs_quota_period`).
    const MIN_MILLI: f64 = 10.0;
    const MAX_MILLI: f64 = 4_000_000_000.0;

    /// Rounds to thousandths of a core.
    ///
    /// # Errors
    /// [`CoresError`] if it is not a number, or out of range.
    pub fn new(cores: f64) -> Result<Self, CoresError> {
        let milli = (cores * 1000.0).round();
        if !(Self::MIN_MILLI..=Self::MAX_MILLI).contains(&milli) {
            return Err(CoresError(cores.to_string()));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was just checked"
        )]
        let milli = milli as u32;
        Ok(Self(CpuCores { milli: Some(milli) }))
    }
}

impl From<CpuCores> for Cores {
    fn from(cores: CpuCores) -> Self {
        Self(cores)
    }
}

impl From<Cores> for CpuCores {
    fn from(cores: Cores) -> Self {
        cores.0
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.milli {
            Some(milli) => (f64::from(milli) / 1000.0).fmt(f),
            None => f.write_str(UNLIMITED),
        }
    }
}

impl FromStr for Cores {
    type Err = CoresError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == UNLIMITED {
            return Ok(Self(CpuCores::UNLIMITED));
        }
        text.parse().map_err(|_| CoresError(format!("{text:?}"))).and_then(Self::new)
    }
}

impl Serialize for Cores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.milli {
            Some(milli) => serializer.serialize_f64(f64::from(milli) / 1000.0),
            None => serializer.serialize_str(UNLIMITED),
        }
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CoresVisitor)
    }
}

struct CoresVisitor;

impl de::Visitor<'_> for CoresVisitor {
    type Value = Cores;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a positive number of cores or \"unlimited\"")
    }

    fn visit_f64<E: de::Error>(self, cores: f64) -> Result<Cores, E> {
        Cores::new(cores).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, cores: u64) -> Result<Cores, E> {
        u32::try_from(cores)
            .map_err(|_| E::custom(CoresError(cores.to_string())))
            .and_then(|cores| self.visit_f64(f64::from(cores)))
    }

    fn visit_i64<E: de::Error>(self, cores: i64) -> Result<Cores, E> {
        u64::try_from(cores)
            .map_err(|_| E::custom(CoresError(cores.to_string())))
            .and_then(|cores| self.visit_u64(cores))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cores, E> {
        if text == UNLIMITED {
            Ok(Cores(CpuCores::UNLIMITED))
        } else {
            Err(E::custom(CoresError(format!("{text:?}"))))
        }
    }
}

/// A time in requests, as RFC 3339 has it.
struct Time(Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfText;
        impl de::Visitor<'_> for OfText {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time as in \"2026-01-01T12:00:00Z\" (RFC 3339)")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                let invalid = |_| E::invalid_value(de::Unexpected::Str(text), &self);
                text.parse().map(Time).map_err(invalid)
            }
        }
        deserializer.deserialize_str(OfText)
    }
}

/// A time of at least one millisecond.
struct Milliseconds(u64);

impl<'de> Deserialize<'de> for Milliseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfNumber;
        impl de::Visitor<'_> for OfNumber {
            type Value = Milliseconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number of milliseconds, 1 or more")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Milliseconds, E> {
                match number {
                    0 => Err(E::invalid_value(de::Unexpected::Unsigned(0), &self)),
                    _ => Ok(Milliseconds(number)),
                }
            }
        }
        deserializer.deserialize_u64(OfNumber)
    }
}

pub(super) fn milliseconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Milliseconds>::deserialize(deserializer)?.map(|given| given.0))
}

pub(super) fn time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<Time>::deserialize(deserializer)?.map(|given| given.0))
}

/// A map in which no key comes twice.
pub(super) fn unique_map<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, T>, D::Error> {
    deserializer.deserialize_map(UniqueMapVisitor(PhantomData))
}

struct UniqueMapVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for UniqueMapVisitor<T> {
    type Value = BTreeMap<String, T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((key, value)) = access.next_entry::<String, T>()? {
            if map.contains_key(&key) {
                return Err(de::Error::custom(format_args!("duplicate field `{key}`")));
            }
            if map.len() == super::object::MAX_ITEMS {
                return Err(de::Error::custom("too many members"));
            }
            map.insert(key, value);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_numbers_or_the_word() {
        for (json, milli) in [("1", 1000), ("0.5", 500), ("2.25", 2250), ("0.01", 10)] {
            let cores: Cores = serde_json::from_str(json).unwrap();
            assert_eq!(cores.0.milli, Some(milli));
            assert_eq!(cores.to_string().parse::<Cores>().unwrap(), cores);
        }
        assert_eq!(serde_json::from_str::<Cores>("\"unlimited\"").unwrap().0, CpuCores::UNLIMITED);
        for bad in ["0", "-1", "0.001", "1e300", "\"1\"", "null", "\"all\"", "99999999999"] {
            assert!(serde_json::from_str::<Cores>(bad).is_err(), "{bad}");
        }
    }
}
