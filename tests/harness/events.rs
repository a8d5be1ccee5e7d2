//! Server-sent events, read one by one as they come.

use serde_json::Value;

use crate::http::{Client, Endpoint, Response};

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number; 0 if it has none.
    pub id: u64,
    /// What it is.
    pub name: String,
    /// What it says: JSON, or a text that is none.
    pub data: Value,
}

/// A stream that is being read.
pub struct Events {
    client: Client,
    /// The head of the answer.
    pub head: Response,
    buffer: String,
    /// Comments that have come.
    pub comments: Vec<String>,
}

impl Events {
    /// Sends a request that is to be answered by a stream, and reads the head of the answer.
    #[must_use]
    #[track_caller]
    pub fn open(
        endpoint: &Endpoint,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Self {
        let mut client = Client::connect(endpoint);
        let mut all = vec![("Accept", "text/event-stream")];
        all.extend(headers);
        let body = body.map(|body| body.to_string().into_bytes());
        client.ask(method, path, &all, body.as_deref());
        let mut head = client.receive_head().unwrap_or_else(|| panic!("no answer: {path}"));
        if head.header("content-type") != Some("text/event-stream") {
            let length: usize = head.header("content-length").unwrap().parse().unwrap();
            head.body = client.exactly(length).unwrap();
        }
        Self { client, head, buffer: String::new(), comments: Vec::new() }
    }

    /// The next event; `None` when the stream has ended.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            while let Some(end) = self.buffer.find("\n\n") {
                let block: String = self.buffer.drain(..end + 2).collect();
                if let Some(comment) = block.strip_prefix(':') {
                    self.comments.push(comment.trim().to_owned());
                    continue;
                }
                return Some(parse(&block));
            }
            let chunk = self.client.chunk().filter(|chunk| !chunk.is_empty())?;
            self.buffer.push_str(std::str::from_utf8(&chunk).expect("an event in UTF-8"));
        }
    }

    /// The next event, which has to be one of this name.
    #[track_caller]
    pub fn expect(&mut self, name: &str) -> Event {
        let event = self.next_event().unwrap_or_else(|| panic!("no more events, no {name}"));
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// All events that are left: reading them is waiting for the end.
    pub fn rest(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.next_event()).collect()
    }
}

fn parse(block: &str) -> Event {
    let line = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
    let field = |name: &str| line(name).unwrap_or_else(|| panic!("no {name:?} in {block:?}"));
    Event {
        id: line("id: ").map_or(0, |id| id.parse().unwrap()),
        name: field("event: ").to_owned(),
        data: serde_json::from_str(field("data: ")).unwrap_or_else(|_| field("data: ").into()),
    }
}

/// What events of one stream print, put together.
#[must_use]
pub fn text(events: &[Event], name: &str) -> String {
    let of_stream = events.iter().filter(|event| event.name == name);
    of_stream.map(|event| event.data["text"].as_str().unwrap()).collect()
}

/// The names of events.
#[must_use]
pub fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.name.as_str()).collect()
}
