//! Queries: each parameter once, unknown ones refused by name.

use std::collections::BTreeMap;

use axum::extract::{FromRequestParts, Query};
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};
use serde::de::{self, DeserializeOwned, Error as _, IntoDeserializer, Unexpected};
use vivarium_api_types::{Page, SessionQuery};

use super::{Problem, Shared, refused};

/// The query, unknown parameters refused.
pub(super) struct Params<T>(pub(super) T);

/// The query of a list of sessions.
pub(super) struct Sessions(pub(super) SessionQuery);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        parse(pairs(&parts.uri)?, &[]).map(Self)
    }
}

impl FromRequestParts<Shared> for Sessions {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Problem> {
        sessions(pairs(&parts.uri)?).map(Self)
    }
}

type Pair = (String, String);

fn pairs(uri: &Uri) -> Result<Vec<Pair>, Problem> {
    let pairs = Query::<Vec<Pair>>::try_from_uri(uri).map_err(|_| {
        let detail = "the query cannot be decoded";
        Problem::new(StatusCode::BAD_REQUEST, "invalid_query", detail)
    })?;
    Ok(pairs.0)
}

fn sessions(pairs: Vec<Pair>) -> Result<SessionQuery, Problem> {
    let (mut rest, mut state, mut metadata) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (name, value) in pairs {
        let key = name.strip_prefix("metadata[").and_then(|key| key.strip_suffix(']'));
        if let Some(key) = key {
            if metadata.insert(key.to_owned(), value).is_some() {
                return Err(refused::query(&name, &format!("duplicate field `{name}`"), &[]));
            }
        } else if name == "state" {
            let found = Deserialize::deserialize(Param(value));
            state.push(
                found.map_err(|error: Error| refused::query(&name, &error.to_string(), &[]))?,
            );
        } else {
            rest.push((name, value));
        }
    }
    let page: Page = parse(rest, &["state", "metadata[KEY]"])?;
    Ok(SessionQuery { page, state, metadata })
}

fn parse<T: DeserializeOwned>(pairs: Vec<Pair>, others: &[&str]) -> Result<T, Problem> {
    let members = pairs.into_iter().map(|(name, value)| (name, Param(value)));
    let query = MapDeserializer::<_, Error>::new(members);
    serde_path_to_error::deserialize(query).map_err(|error| {
        refused::query(&error.path().to_string(), &error.inner().to_string(), others)
    })
}

/// The text of a parameter, read as what is wanted.
struct Param(String);

impl IntoDeserializer<'_> for Param {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> de::Deserializer<'de> for Param {
    type Error = Error;

    fn deserialize_any<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_bool<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.as_str() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            other => Err(Error::invalid_value(Unexpected::Str(other), &visitor)),
        }
    }

    fn deserialize_u64<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0.parse() {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => Err(Error::invalid_value(Unexpected::Str(&self.0), &visitor)),
        }
    }

    fn deserialize_u32<V: de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_u64(visitor)
    }

    fn deserialize_enum<V: de::Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_api_types::{FilePage, SessionState};

    fn of(query: &str) -> Vec<Pair> {
        pairs(&format!("/v1/sessions?{query}").parse().unwrap()).ok().unwrap()
    }

    #[test]
    fn sessions_are_filtered_by_states_and_metadata() {
        let query = sessions(of(
            "limit=3&state=idle&state=running&metadata[a]=1&metadata%5Bb%20c%5D=%C3%BC",
        ));
        let query = query.ok().unwrap();
        assert_eq!((query.page.limit, query.page.after), (3, None));
        assert_eq!(query.state, [SessionState::Idle, SessionState::Running]);
        let metadata: Vec<_> = query.metadata.iter().collect();
        assert_eq!(
            metadata,
            [(&"a".to_owned(), &"1".to_owned()), (&"b c".to_owned(), &"ü".to_owned())]
        );
    }

    #[test]
    fn bad_parameters_are_named_in_plain_words() {
        for (query, detail) in [
            ("limt=3", "there is no parameter \"limt\" (did you mean \"limit\"?)"),
            ("states=idle", "there is no parameter \"states\" (did you mean \"state\"?)"),
            (
                "x=1",
                "there is no parameter \"x\": the parameters are limit, after, state, metadata[KEY]",
            ),
            ("limit=1&limit=2", "limit: it is given twice"),
            ("metadata[a]=1&metadata[a]=2", "metadata[a]: it is given twice"),
            ("limit=ten", "limit: expected a whole number, 0 or more, but got \"ten\""),
            ("limit=-1", "limit: expected a whole number, 0 or more, but got \"-1\""),
        ] {
            let problem = sessions(of(query)).err().unwrap();
            assert_eq!((problem.status, problem.code), (400, "invalid_query"), "{query}");
            assert_eq!(&*problem.detail, detail);
        }
        let problem = sessions(of("state=idl")).err().unwrap();
        assert!(problem.detail.starts_with("state: expected one of \"starting\","), "{problem:?}");
        let problem = parse::<FilePage>(of("recursive=1"), &[]).err().unwrap();
        assert_eq!(&*problem.detail, "recursive: expected true or false, but got \"1\"");
    }
}
