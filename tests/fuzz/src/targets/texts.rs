//! Parsers of text.

use crate::cli;
use crate::config::{self, Config, File, Host, Sources};
use crate::jupyter_wire::{self, Format, Header, MAX_HEADER_BYTES, PROTOCOL};
use crate::rpc::{self, Id, Message};

/// What a client of MCP sends. What is taken for a message says the same when it is written again, and an
/// error names no request but the one that is there.
pub fn rpc(data: &[u8]) {
    match rpc::parse(data) {
        Ok(Message::Response) => {}
        Ok(Message::Request(request) | Message::Notification(request)) => {
            let mut again = rpc::notification(&request.method, request.params.clone().into());
            if let Some(id) = &request.id {
                again["id"] = id.value();
            }
            let again = rpc::parse(again.to_string().as_bytes()).unwrap();
            let is_request = request.id.is_some();
            let expected =
                if is_request { Message::Request(request) } else { Message::Notification(request) };
            assert_eq!(again, expected);
        }
        Err((id, error)) => {
            let whole: Option<serde_json::Value> = serde_json::from_slice(data).ok();
            let there = whole.as_ref().and_then(|whole| whole.get("id")).and_then(Id::read);
            assert!(id.is_none() || id == there, "{id:?} in {error:?}");
            assert!(!error.message.is_empty() && error.message(id.as_ref()).is_object());
        }
    }
}

/// What a client of Jupyter sends, in the form that the first byte says. What is taken for a message has a
/// small header that names it, and its content reads back as it was written.
pub fn jupyter_wire(data: &[u8]) {
    let Some((form, frame)) = data.split_first() else { return };
    let read = match form % 3 {
        0 => jupyter_wire::read_text(frame),
        1 => jupyter_wire::read_binary(frame, Format::Json),
        _ => jupyter_wire::read_binary(frame, Format::V1),
    };
    let Ok(request) = read else { return };
    let header = request.header.to_string();
    assert!(header.len() <= MAX_HEADER_BYTES && request.header["msg_id"].is_string());
    let own = Header {
        msg_id: "id".to_owned(),
        msg_type: "status",
        username: "kernel",
        session: "session".to_owned(),
        date: String::new(),
        version: PROTOCOL,
    };
    let message = jupyter_wire::Message {
        channel: request.channel,
        kind: "status",
        parent: Some(request.header),
        content: request.content.clone().into(),
    };
    let written = message.write(&own, Format::V1).unwrap();
    let again = jupyter_wire::read_binary(&written, Format::V1).unwrap();
    assert_eq!((again.channel, again.kind.as_str()), (request.channel, "status"));
    assert!(again.content.keys().eq(request.content.keys()));
}

/// What tenant code printed, on its way to a person's terminal.
pub fn terminal(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (shown, end) = cli::filter(&[&text]);
    assert!(is_harmless(&shown), "{text:?} became {shown:?}");
    assert!(is_harmless(&end), "{text:?} ended with {end:?}");
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let (one, other) = text.split_at(middle);
    assert_eq!(cli::filter(&[one, other]), (shown.clone(), end));
    assert_eq!(cli::filter(&[&shown]).0, shown, "what passed passes again");

    let is_obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    let escaped = cli::escape(&text);
    assert!(!escaped.contains(is_obeyed), "{text:?} became {escaped:?}");
    let json = serde_json::Value::String(text.into_owned());
    let escaped = cli::escape_json(&json.to_string());
    assert!(!escaped.contains(is_obeyed), "{json} became {escaped:?}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), json);
}

/// Whether a terminal's parser finds nothing in this but text and what stays in its line.
fn is_harmless(text: &str) -> bool {
    let (mut parser, mut terminal) = (vte::Parser::new(), Terminal::default());
    // A control string that has not ended would swallow the full stop.
    parser.advance(&mut terminal, text.as_bytes());
    parser.advance(&mut terminal, b".");
    !terminal.is_harmed && terminal.last == Some('.')
}

/// What a terminal does with what reaches it.
#[derive(Default)]
struct Terminal {
    last: Option<char>,
    is_harmed: bool,
}

impl vte::Perform for Terminal {
    fn print(&mut self, c: char) {
        self.last = Some(c);
        self.is_harmed |= c.is_control();
    }

    fn execute(&mut self, byte: u8) {
        self.is_harmed |= !b"\n\r\t\x08".contains(&byte);
    }

    /// Colours; right, left and to a column; erase in the line, and characters; insert and delete.
    fn csi_dispatch(&mut self, _: &vte::Params, intermediates: &[u8], _: bool, action: char) {
        self.is_harmed |= !intermediates.is_empty() || !"mCDGKX@P".contains(action);
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, _: u8) {
        self.is_harmed = true;
    }

    fn osc_dispatch(&mut self, _: &[&[u8]], _: bool) {
        self.is_harmed = true;
    }

    fn hook(&mut self, _: &vte::Params, _: &[u8], _: bool, _: char) {
        self.is_harmed = true;
    }
}

/// A configuration file, which is an operator's and may hold anything all the same.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    for name in VARIABLES {
        let variables = vec![((*name).to_owned(), text.clone())];
        let _any = resolve(Sources { variables, ..Sources::default() });
    }
    let Some(config) = resolve(Sources { file: file(text), ..Sources::default() }) else { return };
    // What is shown of it is a configuration, and the same one.
    let shown = config::show(&config);
    let again = resolve(Sources { file: file(shown.clone()), ..Sources::default() });
    let again = again.unwrap_or_else(|| panic!("not a configuration: {shown}"));
    for (one, other) in config.entries.iter().zip(&again.entries) {
        assert_eq!((one.path(), &one.value), (other.path(), &other.value), "{shown}");
    }
    config::reload(&config.settings, &config, &again).expect("the same configuration");
}

/// One of each kind of value.
const VARIABLES: &[&str] = &[
    "VIVARIUM_SANDBOX",
    "VIVARIUM_SANDBOX_CPU_CORES",
    "VIVARIUM_SANDBOX_MAX_MEMORY_MB",
    "VIVARIUM_SERVER_LISTEN",
    "VIVARIUM_SESSION_EXEC_TIMEOUT",
];

fn file(text: String) -> Option<File> {
    Some(File { path: "/etc/vivarium.toml".into(), text })
}

/// The configuration, unless there are errors, which say something.
fn resolve(sources: Sources) -> Option<Config> {
    let host = Host { temp_dir: "/tmp".into(), ..Host::default() };
    match config::resolve(&Sources { host, ..sources }) {
        Ok(config) => Some(config),
        Err(errors) => {
            assert!(!errors.to_string().is_empty());
            None
        }
    }
}
