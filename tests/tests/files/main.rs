//! Files over the API: what goes up comes down, and nothing that is planted in a workdir makes
//! anybody touch anything else.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod archives;
mod bounds;
mod changes;
mod devices;
mod ends;
mod entries;
mod links;
mod lists;
mod outputs;
mod paths;
mod places;
mod races;
mod roundtrips;
mod stream;
mod tar;
mod watching;

use vivarium_tests::http::{Client, Response};
use vivarium_tests::{Daemon, Session, Setup, Shared};

/// For tests that ask nothing of it that another would notice.
static DAEMON: Shared = Shared::new(Setup::default);

/// What sessions have in their workdirs to begin with. No list has it.
const TMPDIR: &str = ".tmp";

/// A session and requests about its files.
struct Files<'d> {
    daemon: &'d Daemon,
    session: Session<'d>,
}

impl<'d> Files<'d> {
    fn of(daemon: &'d Daemon) -> Self {
        Self { daemon, session: daemon.session() }
    }

    /// The URL's path of a file, which is given as it is to be sent.
    fn url(&self, file: &str) -> String {
        self.session.path(&format!("/files/{file}"))
    }

    fn send(
        &self,
        method: &str,
        file: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Response {
        Client::connect(&self.daemon.unix()).send(method, &self.url(file), headers, body)
    }

    fn get(&self, file: &str) -> Response {
        self.send("GET", file, &[], None)
    }

    fn put(&self, file: &str, content: &[u8]) -> Response {
        self.send("PUT", file, &[("Content-Type", "application/octet-stream")], Some(content))
    }

    fn change(&self, file: &str, change: &serde_json::Value) -> Response {
        self.session.request("PATCH", &format!("/files/{file}"), Some(change))
    }

    fn delete(&self, file: &str) -> Response {
        self.send("DELETE", file, &[], None)
    }

    fn unpack(&self, directory: &str, archive: &[u8]) -> Response {
        let rest = if directory.is_empty() { String::new() } else { format!("/{directory}") };
        let url = self.session.path(&format!("/files{rest}?unpack=true"));
        let headers = [("Content-Type", "application/x-tar")];
        Client::connect(&self.daemon.unix()).send("PUT", &url, &headers, Some(archive))
    }

    /// The content of a file that has to be there.
    #[track_caller]
    fn content(&self, file: &str) -> Vec<u8> {
        let answer = self.get(file);
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        answer.body
    }

    /// The paths below a directory.
    #[track_caller]
    fn names(&self, query: &str) -> Vec<String> {
        let list = self.session.request("GET", &format!("/files?{query}"), None).expect_success();
        let entries = list["entries"].as_array().unwrap();
        entries.iter().map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
    }

    /// The names in the workdir as code sees them, as ASCII.
    #[track_caller]
    fn seen(&self) -> String {
        self.session
            .value(&format!("ascii(sorted({{*__import__('os').listdir()}} - {{{TMPDIR:?}}}))"))
    }

    /// Runs code that has to work.
    #[track_caller]
    fn run(&self, code: &str) {
        let _outcome = self.session.execute(code).ok();
    }
}

/// What the daemon holds in memory, in bytes.
fn resident_bytes(daemon: &Daemon) -> u64 {
    daemon.process().status_number("VmRSS").unwrap() << 10
}

/// Bytes of every value, in no order, the same for each `seed`.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64: Marsaglia, "Xorshift RNGs", 2003.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
