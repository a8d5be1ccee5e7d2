//! Paths and queries of the API's routes.

use std::fmt::{Display, Write};

use vivarium_api_types::{FilePage, Page};

use super::Store;

/// The path of a session. Any id stays one component; the daemon refuses invalid ones.
#[must_use]
pub fn session(id: &str) -> String {
    format!("/v1/sessions/{}", encode(id))
}

pub(super) fn contexts(session_id: &str) -> String {
    format!("{}/contexts", session(session_id))
}

pub(super) fn context(session_id: &str, id: &str) -> String {
    format!("{}/{}", contexts(session_id), encode(id))
}

pub(super) fn checkpoints(session_id: &str) -> String {
    format!("{}/checkpoints", session(session_id))
}

pub(super) fn checkpoint(session_id: &str, name: &str) -> String {
    format!("{}/{}", checkpoints(session_id), encode(name))
}

pub(super) fn image(session_id: &str) -> String {
    format!("/v1/images/{}", encode(session_id))
}

/// The path of an execution.
#[must_use]
pub fn execution(session_id: &str, id: &str) -> String {
    format!("{}/executions/{}", session(session_id), encode(id))
}

/// The path of a file; without a name, of all files.
#[must_use]
pub fn file(session_id: &str, name: &str) -> String {
    let files = format!("{}/files", session(session_id));
    if name.is_empty() {
        return files;
    }
    // The first slash of an absolute path is escaped: proxies merge two that follow each other.
    let (root, rest) = name.strip_prefix('/').map_or(("", name), |rest| ("%2F", rest));
    let parts: Vec<String> = rest.split('/').map(encode).collect();
    format!("{files}/{root}{}", parts.join("/"))
}

pub(super) fn approval(id: &str) -> String {
    format!("/v1/approvals/{}", encode(id))
}

pub(super) fn store(store: Store<'_>) -> String {
    match store {
        Store::Home(id) => format!("/v1/homes/{}", encode(id)),
        Store::Volume(name) => format!("/v1/volumes/{}", encode(name)),
    }
}

/// The path of a file of a home or volume; without a name, of all files.
pub(super) fn stored(at: Store<'_>, name: &str) -> String {
    let files = format!("{}/files", store(at));
    if name.is_empty() {
        return files;
    }
    let parts: Vec<String> = name.split('/').map(encode).collect();
    format!("{files}/{}", parts.join("/"))
}

pub(super) fn add_page(at: &mut String, page: &FilePage) {
    add(at, "path", &page.path);
    add(at, "recursive", page.recursive);
    add(at, "limit", page.limit);
    if let Some(after) = &page.after {
        add(at, "after", after);
    }
}

/// Adds which part of a list is wanted.
pub(super) fn add_part(at: &mut String, page: &Page) {
    add(at, "limit", page.limit);
    if let Some(after) = &page.after {
        add(at, "after", after);
    }
}

/// Adds a parameter to the query of a path.
pub fn add(path: &mut String, name: &str, value: impl Display) {
    let mark = if path.contains('?') { '&' } else { '?' };
    let value = encode(&value.to_string());
    write!(path, "{mark}{}={value}", encode(name)).unwrap_or_default();
}

/// Encodes text as one component of a path, or one name or value of a query.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        // RFC 3986, 2.3: unreserved, without the full stop, which alone means a directory.
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").unwrap_or_default();
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_id_stays_one_component_of_the_path() {
        assert_eq!(session("a-B_9"), "/v1/sessions/a-B_9");
        assert_eq!(session("../x?y"), "/v1/sessions/%2E%2E%2Fx%3Fy");
        assert_eq!(context("s", "../a"), "/v1/sessions/s/contexts/%2E%2E%2Fa");
        assert_eq!(execution("s", "1/2"), "/v1/sessions/s/executions/1%2F2");
    }

    #[test]
    fn homes_and_volumes_have_paths_of_their_own() {
        assert_eq!(store(Store::Home("@tenant")), "/v1/homes/%40tenant");
        assert_eq!(store(Store::Volume("../x")), "/v1/volumes/%2E%2E%2Fx");
        assert_eq!(stored(Store::Home("a"), "b/c d"), "/v1/homes/a/files/b/c%20d");
    }

    #[test]
    fn file_names_become_paths_that_proxies_leave_alone() {
        assert_eq!(file("s", ""), "/v1/sessions/s/files");
        assert_eq!(file("s", "a/b c"), "/v1/sessions/s/files/a/b%20c");
        assert_eq!(file("s", "/tmp/a"), "/v1/sessions/s/files/%2Ftmp/a");
    }

    #[test]
    fn parameters_are_added_to_a_path_one_by_one() {
        let mut path = session("s");
        add(&mut path, "limit", 5);
        add(&mut path, "metadata[a b]", "c&d");
        assert_eq!(path, "/v1/sessions/s?limit=5&metadata%5Ba%20b%5D=c%26d");
    }
}
