//! `GET /sandboxes`: the sandboxes of a tenant, filtered, in order of time and in parts.

use axum::Json;
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, Method, Uri};
use jiff::Timestamp;
use serde::Deserialize;
use vivarium_client::path;

use super::errors::bad;
use super::session::{MARK, Session};
use crate::dialects::native::{self, Call, Native, Refusal};

/// Sessions that are asked for at a time.
const PAGE: u64 = 1000;

/// The most sandboxes of one answer, and those of a client that does not say how many.
const MAX_LIMIT: usize = 100;

const NEXT: HeaderName = HeaderName::from_static("x-next-token");

#[derive(Deserialize)]
struct Page {
    sessions: Vec<Session>,
    next: Option<String>,
}

/// What a list is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    metadata: Vec<(String, String)>,
    states: Vec<String>,
    template: Option<String>,
    started_after: Option<Timestamp>,
    limit: usize,
    /// The first of the part: its time and id.
    from: Option<(Timestamp, String)>,
    oldest_first: bool,
}

impl Wanted {
    fn read(query: &str) -> Result<Self, Refusal> {
        let mut wanted = Self {
            metadata: Vec::new(),
            states: Vec::new(),
            template: None,
            started_after: None,
            limit: MAX_LIMIT,
            from: None,
            oldest_first: false,
        };
        for (name, value) in pairs(query)? {
            match name.as_str() {
                // A query of its own, whose parts are quoted once more.
                "metadata" => {
                    for (key, value) in pairs(&value)? {
                        wanted.metadata.push((unquoted(&key)?, unquoted(&value)?));
                    }
                }
                "state" => wanted.states.extend(value.split(',').map(str::to_owned)),
                "template" => wanted.template = Some(value).filter(|name| !name.is_empty()),
                "startedAfter" => {
                    let time = value.parse().map_err(|_| bad("startedAfter", "not a time"))?;
                    wanted.started_after = Some(time);
                }
                "limit" => {
                    let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
                    wanted.limit = limit.ok_or_else(|| bad("limit", "from 1 to 100"))?;
                }
                "nextToken" => {
                    let (time, id) = value.split_once('_').unwrap_or_default();
                    let time = time.parse().map_err(|_| bad("nextToken", "not one of ours"))?;
                    wanted.from = Some((time, id.to_owned()));
                }
                "order" => wanted.oldest_first = value == "asc",
                _ => {}
            }
        }
        Ok(wanted)
    }

    fn is_wanted(&self, session: &Session) -> bool {
        let of_state = self.states.is_empty()
            || self.states.iter().any(|state| state.as_str() == session.state());
        let of_template =
            self.template.as_ref().is_none_or(|name| name.as_str() == session.template());
        let of_time = self.started_after.is_none_or(|time| session.created_at >= time);
        of_state && of_template && of_time
    }

    /// The part that is asked for, and what to ask next.
    fn part(&self, mut all: Vec<Session>) -> (Vec<Session>, Option<String>) {
        all.retain(|session| self.is_wanted(session));
        all.sort_by(|one, other| {
            let order = (one.created_at, &one.id).cmp(&(other.created_at, &other.id));
            if self.oldest_first { order } else { order.reverse() }
        });
        if let Some((time, id)) = &self.from {
            let from = (*time, id);
            all.retain(|session| {
                let at = (session.created_at, &session.id);
                if self.oldest_first { at >= from } else { at <= from }
            });
        }
        let next = all.get(self.limit).map(|next| format!("{}_{}", next.created_at, next.id));
        all.truncate(self.limit);
        (all, next)
    }
}

/// Answers with sandboxes.
pub(super) async fn list<N: Native>(native: &N, query: &str) -> Result<Response, Refusal> {
    let wanted = Wanted::read(query)?;
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let mut at = "/v1/sessions".to_owned();
        path::add(&mut at, &format!("metadata[{MARK}]"), 1);
        for (key, value) in &wanted.metadata {
            path::add(&mut at, &format!("metadata[{key}]"), value);
        }
        path::add(&mut at, "limit", PAGE);
        if let Some(after) = &after {
            path::add(&mut at, "after", after);
        }
        let (page, _) = native::json::<N, Page>(native, Call::new(Method::GET, at)).await?;
        all.extend(page.sessions);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let (part, next) = wanted.part(all);
    let told: Vec<_> = part.iter().map(Session::listed).collect();
    let mut response = Json(told).into_response();
    if let Some(next) = next.and_then(|next| HeaderValue::try_from(next).ok()) {
        response.headers_mut().insert(NEXT, next);
    }
    Ok(response)
}

/// The pairs of a query.
pub(super) fn pairs(query: &str) -> Result<Vec<(String, String)>, Refusal> {
    let unreadable = || bad("query", "it cannot be read");
    let uri: Uri = format!("/?{query}").parse().map_err(|_| unreadable())?;
    Query::try_from_uri(&uri).map(|pairs| pairs.0).map_err(|_| unreadable())
}

fn unquoted(text: &str) -> Result<String, Refusal> {
    let pairs = pairs(&format!("x={}", text.replace('&', "%26").replace('+', "%2B")))?;
    Ok(pairs.into_iter().next().map(|(_, value)| value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn session(id: &str, time: &str) -> Session {
        serde_json::from_value(json!({
            "id": id, "state": "idle", "environment": "default", "created_at": time,
            "deadline": null, "metadata": {"e2b": "1"},
        }))
        .unwrap()
    }

    #[test]
    fn metadata_is_quoted_twice() {
        let wanted = Wanted::read("metadata=a%252520b%3Dc%252526d&limit=5&state=running").unwrap();
        assert_eq!(wanted.metadata, [("a b".to_owned(), "c&d".to_owned())]);
        assert_eq!((wanted.limit, wanted.states), (5, vec!["running".to_owned()]));
        assert!(Wanted::read("limit=0").is_err() && Wanted::read("nextToken=x").is_err());
    }

    #[test]
    fn parts_follow_one_another_newest_first() {
        let all = || {
            [
                ("b", "2026-01-01T00:00:01Z"),
                ("a", "2026-01-01T00:00:00Z"),
                ("c", "2026-01-01T00:00:01Z"),
            ]
            .map(|(id, time)| session(id, time))
            .into()
        };
        let ids = |query: &str| {
            let (part, next) = Wanted::read(query).unwrap().part(all());
            (part.into_iter().map(|session| session.id).collect::<Vec<_>>(), next)
        };
        let (first, next) = ids("limit=2");
        assert_eq!(first, ["c", "b"]);
        let next = next.unwrap();
        assert_eq!(ids(&format!("limit=2&nextToken={next}")), (vec!["a".to_owned()], None));
        assert_eq!(ids("order=asc").0, ["a", "b", "c"]);
        assert_eq!(ids("startedAfter=2026-01-01T00:00:01Z").0, ["c", "b"]);
        assert_eq!(ids("state=paused").0, Vec::<String>::new());
    }
}
