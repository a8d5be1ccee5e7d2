//! E2B: what its SDKs send is understood, and its tokens and signatures open what they are for, and no
//! other tenant's.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod control;
mod envd;
mod hostile;
mod pausing;
mod ports;
mod slow;
mod strangers;

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::{Daemon, Setup, Shared};

/// For tests that ask nothing of it that another would notice.
static DAEMON: Shared = Shared::new(switched_on);

const ENVD: &str = "49983";
const INTERPRETER: &str = "49999";

fn switched_on() -> Setup {
    Setup::default().config("dialects", "e2b = true").config("e2b", "listen = [\"127.0.0.1:0\"]")
}

/// The daemon's listener of E2B, which its log names.
fn listener(daemon: &Daemon) -> Endpoint {
    let log = daemon.log();
    let (_, rest) = log.split_once("e2b").expect("the log names E2B's listeners");
    let (_, rest) = rest.split_once("127.0.0.1:").unwrap();
    let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Endpoint::Tcp(port.parse().unwrap())
}

/// The API, for who shows this token.
struct Api {
    at: Endpoint,
    key: String,
}

impl Api {
    fn of(daemon: &Daemon, key: &str) -> Self {
        Self { at: listener(daemon), key: key.to_owned() }
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Response {
        let headers = [("X-API-KEY", self.key.as_str()), ("Content-Type", "application/json")];
        let body = body.map(|body| body.to_string().into_bytes());
        Client::connect(&self.at).send(method, path, &headers, body.as_deref())
    }

    #[track_caller]
    fn create(&self, more: &Value) -> Sandbox {
        let mut spec = json!({"templateID": "base", "timeout": 600});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = self.ask("POST", "/v2/sandboxes", Some(&spec));
        assert_eq!(answer.status, 201, "{answer:?}");
        self.opened(&answer.json())
    }

    fn opened(&self, told: &Value) -> Sandbox {
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        Sandbox {
            at: self.at.clone(),
            id: text("sandboxID"),
            envd: text("envdAccessToken"),
            traffic: text("trafficAccessToken"),
        }
    }
}

/// A sandbox, and its tokens.
#[derive(Clone)]
struct Sandbox {
    at: Endpoint,
    id: String,
    envd: String,
    traffic: String,
}

impl Sandbox {
    fn headers<'a>(
        &'a self,
        port: &'a str,
        more: &[(&'a str, &'a str)],
    ) -> Vec<(&'a str, &'a str)> {
        let own = [("E2b-Sandbox-Id", self.id.as_str()), ("E2b-Sandbox-Port", port)];
        own.into_iter().chain(more.iter().copied()).collect()
    }

    fn send(
        &self,
        port: &str,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Response {
        Client::connect(&self.at).send(method, path, &self.headers(port, more), body)
    }

    /// A call of the Connect protocol without a stream.
    fn call(&self, method: &str, body: &Value) -> Response {
        let more = [("X-Access-Token", self.envd.as_str()), ("Content-Type", "application/json")];
        let body = body.to_string();
        self.send(ENVD, "POST", &format!("/{method}"), &more, Some(body.as_bytes()))
    }

    /// The messages of a stream that ends, and its end.
    fn stream(&self, method: &str, body: &Value) -> (Vec<Value>, Value) {
        let answer = self.stream_of(method, &envelope(0, body.to_string().as_bytes()));
        assert_eq!(answer.status, 200, "{answer:?}");
        messages(&answer.body)
    }

    fn stream_of(&self, method: &str, body: &[u8]) -> Response {
        let more = [
            ("X-Access-Token", self.envd.as_str()),
            ("Content-Type", "application/connect+json"),
            ("Connect-Protocol-Version", "1"),
        ];
        self.send(ENVD, "POST", &format!("/{method}"), &more, Some(body))
    }

    /// Code, and the lines that come of it.
    fn execute(&self, body: &Value) -> Response {
        let more = [("X-Access-Token", self.envd.as_str()), ("Content-Type", "application/json")];
        let body = body.to_string();
        self.send(INTERPRETER, "POST", "/execute", &more, Some(body.as_bytes()))
    }

    fn lines(&self, code: &str) -> Vec<Value> {
        let answer = self.execute(&json!({"code": code}));
        assert_eq!(answer.status, 200, "{answer:?}");
        let text = String::from_utf8(answer.body).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn envelope(flags: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[flags][..], &length, message].concat()
}

/// The messages of a stream, and its end.
fn messages(mut bytes: &[u8]) -> (Vec<Value>, Value) {
    let mut all = Vec::new();
    loop {
        let (head, rest) = bytes.split_at(5);
        let length = u32::from_be_bytes(head[1..].try_into().unwrap());
        let (message, rest) = rest.split_at(usize::try_from(length).unwrap());
        let message: Value = serde_json::from_slice(message).unwrap();
        if head[0] == 2 {
            assert!(rest.is_empty());
            return (all, message);
        }
        assert_eq!(head[0], 0);
        all.push(message);
        bytes = rest;
    }
}
