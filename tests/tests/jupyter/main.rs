//! The Jupyter gateway: what notebooks' clients send is understood, and it lets nobody do what the API
//! would not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod hostile;
mod kernels;
mod lab;
mod many;
mod messages;
mod slow;
mod strangers;

use serde_json::{Value, json};
use vivarium_tests::http::{Client, Endpoint, Response};
use vivarium_tests::{Daemon, Setup, Shared};

/// For tests that ask nothing of it that another would notice.
static DAEMON: Shared = Shared::new(switched_on);

fn switched_on() -> Setup {
    Setup::default().config("dialects", "jupyter = true")
}

fn ask(at: &Endpoint, method: &str, path: &str, body: Option<&Value>) -> Response {
    Client::connect(at).json(method, &format!("/jupyter{path}"), body)
}

/// A new kernel.
#[track_caller]
fn kernel(at: &Endpoint, base: &str) -> String {
    let model = ask(at, "POST", &format!("{base}/api/kernels"), None).expect_success();
    model["id"].as_str().unwrap().to_owned()
}

const OPENING: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

/// A `WebSocket` to a kernel.
struct Socket {
    client: Client,
    asked: u64,
}

impl Socket {
    #[track_caller]
    fn open(at: &Endpoint, base: &str, kernel: &str) -> Self {
        let mut client = Client::connect(at);
        let path = format!("/jupyter{base}/api/kernels/{kernel}/channels?session_id=s");
        client.ask("GET", &path, &OPENING, None);
        let head = client.receive_head().unwrap();
        assert_eq!(head.status, 101, "{head:?}");
        assert_eq!(head.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        Self { client, asked: 0 }
    }

    /// Sends a frame of this kind (RFC 6455, 5.2).
    fn frame(&mut self, opcode: u8, payload: &[u8]) {
        let mask = [1, 2, 3, 4];
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            len @ 0..=125 => frame.push(0x80 | u8::try_from(len).unwrap()),
            len @ 126..=65535 => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(len).unwrap().to_be_bytes());
            }
            len => {
                frame.push(0x80 | 127);
                frame.extend((len as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.client.send_raw(&frame);
    }

    /// Asks something, and gives the id of the request.
    fn ask(&mut self, kind: &str, content: Value) -> String {
        self.asked += 1;
        let id = format!("{kind}-{}", self.asked);
        let header = json!({"msg_id": id, "msg_type": kind, "username": "u", "session": "s",
                            "date": "2026-01-01T12:00:00Z", "version": "5.3"});
        let message = json!({"header": header, "parent_header": {}, "metadata": {}, "content": content,
                             "channel": "shell", "buffers": []});
        self.frame(1, message.to_string().as_bytes());
        id
    }

    /// The kind and the payload of the next whole message, pings aside; `None` at the end.
    fn hear_raw(&mut self) -> Option<(u8, Vec<u8>)> {
        let (mut kind, mut whole) = (0, Vec::new());
        loop {
            let head = self.client.exactly(2)?;
            let length = match head[1] {
                126 => self.client.exactly(2)?,
                127 => self.client.exactly(8)?,
                short => vec![short],
            };
            let length = length.iter().fold(0, |all, byte| all << 8 | usize::from(*byte));
            let payload = self.client.exactly(length)?;
            match head[0] & 15 {
                9 | 10 => continue,
                0 => {}
                opcode => kind = opcode,
            }
            whole.extend(payload);
            if head[0] & 0x80 != 0 {
                return Some((kind, whole));
            }
        }
    }

    #[track_caller]
    fn hear(&mut self) -> Value {
        let (kind, payload) = self.hear_raw().expect("a message");
        assert_eq!(kind, 1, "{}", String::from_utf8_lossy(&payload));
        serde_json::from_slice(&payload).unwrap()
    }

    /// The code with which the socket is closed, after what is still told.
    #[track_caller]
    fn closed(&mut self) -> u16 {
        loop {
            let (kind, payload) = self.hear_raw().expect("a reason");
            if kind == 8 {
                return u16::from_be_bytes([payload[0], payload[1]]);
            }
        }
    }

    /// Hears until the connection ends, and gives how many messages there were.
    fn ended(&mut self) -> usize {
        std::iter::from_fn(|| self.hear_raw()).filter(|(kind, _)| *kind != 8).count()
    }

    /// What is said to a request, up to the kernel's being idle and the reply if there is one.
    #[track_caller]
    fn answers(&mut self, id: &str, has_reply: bool) -> Vec<Value> {
        let (mut all, mut is_idle, mut is_replied) = (Vec::new(), false, !has_reply);
        while !(is_idle && is_replied) {
            let message = self.hear();
            if message["parent_header"]["msg_id"] != id {
                continue;
            }
            is_idle |= message["content"]["execution_state"] == "idle";
            is_replied |= message["channel"] != "iopub";
            all.push(message);
        }
        all
    }

    /// Executes, and gives what is said.
    #[track_caller]
    fn execute(&mut self, code: &str) -> Vec<Value> {
        let id = self.ask("execute_request", json!({"code": code, "allow_stdin": false}));
        self.answers(&id, true)
    }
}

/// The kinds of messages.
fn kinds(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["msg_type"].as_str().unwrap()).collect()
}

/// The content of the message of this kind.
#[track_caller]
fn content<'a>(messages: &'a [Value], kind: &str) -> &'a Value {
    let found = messages.iter().find(|message| message["msg_type"] == kind);
    &found.unwrap_or_else(|| panic!("no {kind} in {messages:?}"))["content"]
}

fn is_time(text: &Value) -> bool {
    let text = text.as_str().unwrap();
    text.len() == 27 && text.ends_with('Z') && &text[19..20] == "."
}

/// Where a daemon listens.
fn at(daemon: &Daemon) -> Endpoint {
    daemon.tcp()
}
