//! Messages of the Jupyter protocol, and the three forms that they have in a `WebSocket`: JSON text,
//! the older binary form with buffers, and `v1.kernel.websocket.jupyter.org`.
//!
//! What a client sends is bounded by its frame; nothing here trusts an offset of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The version of the protocol that is spoken.
pub const PROTOCOL: &str = "5.3";

/// The subprotocol of [`Format::V1`].
pub const V1: &str = "v1.kernel.websocket.jupyter.org";

/// The most bytes of a request's header. Every answer repeats it.
pub const MAX_HEADER_BYTES: usize = 4 << 10;

/// The most parts of a binary frame.
const MAX_PARTS: usize = 1024;

/// Channel, header, parent header, metadata and content.
const PARTS: usize = 5;

/// How a client's messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    V1,
}

/// The channel of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Shell,
    Control,
    Stdin,
    Iopub,
}

impl Channel {
    const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::Iopub => "iopub",
        }
    }

    /// nbclient names none, and means the shell.
    fn read(name: Option<&str>) -> Result<Self, BadMessage> {
        match name {
            None | Some("" | "shell") => Ok(Self::Shell),
            Some("control") => Ok(Self::Control),
            Some("stdin") => Ok(Self::Stdin),
            Some("iopub") => Ok(Self::Iopub),
            Some(_) => Err(BadMessage::Channel),
        }
    }
}

/// Why a frame is no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    #[error("a message is a JSON object with header, parent_header, metadata and content")]
    Json,
    #[error("the channel is shell, control or stdin")]
    Channel,
    #[error("the header has a msg_id and a msg_type, and at most 4096 bytes")]
    Header,
    #[error("the offsets of a binary frame are not those of its parts")]
    Offsets,
}

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub channel: Channel,
    /// The `msg_type`.
    pub kind: String,
    /// What every answer has as its parent.
    pub header: Arc<Value>,
    pub content: Map<String, Value>,
}

impl Request {
    fn new(
        channel: Option<&str>,
        header: Value,
        content: Map<String, Value>,
    ) -> Result<Self, BadMessage> {
        let channel = Channel::read(channel)?;
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        let kind = text("msg_type").ok_or(BadMessage::Header)?.to_owned();
        if text("msg_id").is_none() || header.to_string().len() > MAX_HEADER_BYTES {
            return Err(BadMessage::Header);
        }
        Ok(Self { channel, kind, header: Arc::new(header), content })
    }
}

#[derive(Deserialize)]
struct Whole {
    header: Value,
    #[serde(default)]
    content: Option<Map<String, Value>>,
    #[serde(default)]
    channel: Option<String>,
}

/// Reads a text frame.
///
/// # Errors
/// [`BadMessage`]
pub fn read_text(text: &[u8]) -> Result<Request, BadMessage> {
    let whole: Whole = serde_json::from_slice(text).map_err(|_| BadMessage::Json)?;
    Request::new(whole.channel.as_deref(), whole.header, whole.content.unwrap_or_default())
}

/// Reads a binary frame of a client of this form. Buffers are left out: what they are for, comms, is
/// not there.
///
/// # Errors
/// [`BadMessage`]
pub fn read_binary(frame: &[u8], format: Format) -> Result<Request, BadMessage> {
    match format {
        Format::Json => read_text(message_before_buffers(frame)?),
        Format::V1 => read_v1(frame),
    }
}

/// The number of parts and where each begins, in four bytes each, most significant first; then the
/// message as JSON, and buffers.
fn message_before_buffers(frame: &[u8]) -> Result<&[u8], BadMessage> {
    let number = |at: usize| {
        let bytes = frame.get(at * 4..at * 4 + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    };
    let count = number(0).filter(|count| (1..=MAX_PARTS).contains(count));
    let count = count.ok_or(BadMessage::Offsets)?;
    let start = number(1).filter(|start| *start == (count + 1) * 4);
    let end = if count > 1 { number(2) } else { Some(frame.len()) };
    let (Some(start), Some(end)) = (start, end) else { return Err(BadMessage::Offsets) };
    frame.get(start..end).ok_or(BadMessage::Offsets)
}

/// The number of offsets and each of them, in eight bytes each, least significant first; then channel,
/// header, parent header, metadata, content and buffers. The last offset is the frame's end.
fn read_v1(frame: &[u8]) -> Result<Request, BadMessage> {
    let number = |at: usize| {
        let bytes = frame.get(at * 8..at * 8 + 8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let count = number(0).filter(|count| (PARTS + 1..=MAX_PARTS).contains(count));
    let count = count.ok_or(BadMessage::Offsets)?;
    if number(1) != Some((count + 1) * 8) {
        return Err(BadMessage::Offsets);
    }
    let part = |index: usize| {
        let (Some(start), Some(end)) = (number(index + 1), number(index + 2)) else {
            return Err(BadMessage::Offsets);
        };
        frame.get(start..end).ok_or(BadMessage::Offsets)
    };
    let channel = std::str::from_utf8(part(0)?).map_err(|_| BadMessage::Channel)?;
    let header = serde_json::from_slice(part(1)?).map_err(|_| BadMessage::Json)?;
    let content = serde_json::from_slice(part(4)?).map_err(|_| BadMessage::Json)?;
    Request::new(Some(channel), header, content)
}

/// A message to clients.
#[derive(Debug, Clone)]
pub struct Message {
    pub channel: Channel,
    /// The `msg_type`.
    pub kind: &'static str,
    /// The header of the request that this belongs to, if any.
    pub parent: Option<Arc<Value>>,
    pub content: Value,
}

/// What distinguishes a message that is sent.
#[derive(Debug, Clone, Serialize)]
pub struct Header {
    pub msg_id: String,
    pub msg_type: &'static str,
    pub username: &'static str,
    /// Of the kernel.
    pub session: String,
    pub date: String,
    pub version: &'static str,
}

#[derive(Serialize)]
struct Text<'a> {
    header: &'a Header,
    msg_id: &'a str,
    msg_type: &'a str,
    parent_header: &'a Value,
    metadata: Map<String, Value>,
    content: &'a Value,
    channel: &'a str,
    buffers: [(); 0],
}

impl Message {
    /// The frame of this message.
    ///
    /// # Errors
    /// None of a message of ours: its maps have strings as keys.
    pub fn write(&self, header: &Header, format: Format) -> serde_json::Result<Vec<u8>> {
        let none = Value::Object(Map::new());
        let parent_header = self.parent.as_deref().unwrap_or(&none);
        let channel = self.channel.name();
        if format == Format::Json {
            let (msg_id, msg_type) = (header.msg_id.as_str(), header.msg_type);
            let (metadata, content, buffers) = (Map::new(), &self.content, []);
            return serde_json::to_vec(&Text {
                header,
                msg_id,
                msg_type,
                parent_header,
                metadata,
                content,
                channel,
                buffers,
            });
        }
        let parts = [
            channel.as_bytes().to_vec(),
            serde_json::to_vec(header)?,
            serde_json::to_vec(parent_header)?,
            b"{}".to_vec(),
            serde_json::to_vec(&self.content)?,
        ];
        let mut at = (parts.len() + 2) * 8;
        let mut frame = Vec::with_capacity(at + parts.iter().map(Vec::len).sum::<usize>());
        frame.extend_from_slice(&(parts.len() as u64 + 1).to_le_bytes());
        frame.extend_from_slice(&(at as u64).to_le_bytes());
        for part in &parts {
            at += part.len();
            frame.extend_from_slice(&(at as u64).to_le_bytes());
        }
        for part in &parts {
            frame.extend_from_slice(part);
        }
        Ok(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn header() -> Value {
        json!({"msg_id": "a", "msg_type": "execute_request", "session": "s"})
    }

    fn legacy(parts: &[&[u8]]) -> Vec<u8> {
        let mut frame = u32::try_from(parts.len()).unwrap().to_be_bytes().to_vec();
        let mut at = (parts.len() + 1) * 4;
        for part in parts {
            frame.extend(u32::try_from(at).unwrap().to_be_bytes());
            at += part.len();
        }
        frame.extend(parts.concat());
        frame
    }

    fn sent(format: Format) -> Vec<u8> {
        let header = Header {
            msg_id: "b".to_owned(),
            msg_type: "status",
            username: "kernel",
            session: "k".to_owned(),
            date: "2026-01-01T12:00:00.000000Z".to_owned(),
            version: PROTOCOL,
        };
        let content = json!({"execution_state": "idle"});
        let parent = Some(Arc::new(self::header()));
        let message = Message { channel: Channel::Iopub, kind: "status", parent, content };
        message.write(&header, format).unwrap()
    }

    #[test]
    fn each_form_is_read() {
        let text = json!({"header": header(), "parent_header": {}, "content": {"code": "1"}});
        let text = text.to_string().into_bytes();
        let request = read_text(&text).unwrap();
        assert_eq!((request.channel, request.kind.as_str()), (Channel::Shell, "execute_request"));
        assert_eq!(request.content["code"], "1");
        assert_eq!(read_binary(&legacy(&[&text]), Format::Json).unwrap(), request);
        assert_eq!(read_binary(&legacy(&[&text, b"buffer"]), Format::Json).unwrap(), request);
        let told = read_binary(&sent(Format::V1), Format::V1).unwrap();
        assert_eq!((told.channel, told.kind.as_str()), (Channel::Iopub, "status"));
        assert_eq!(told.content["execution_state"], "idle");
    }

    #[test]
    fn text_has_id_and_type_at_the_top_too() {
        let told: Value = serde_json::from_slice(&sent(Format::Json)).unwrap();
        assert_eq!((&told["msg_type"], &told["msg_id"]), (&json!("status"), &json!("b")));
        assert_eq!((&told["buffers"], &told["parent_header"]), (&json!([]), &header()));
        assert_eq!(told["channel"], "iopub");
    }

    #[test]
    fn anything_else_is_refused() {
        let long = json!({"header": {"msg_id": "x".repeat(5000), "msg_type": "a"}}).to_string();
        let deep = "[".repeat(100_000);
        for bad in ["", "{", "[]", "null", "{}", r#"{"header": {}}"#, &long, &deep] {
            assert!(read_text(bad.as_bytes()).is_err(), "{bad:.20}");
        }
        let other = json!({"header": header(), "channel": "other"}).to_string();
        assert_eq!(read_text(other.as_bytes()), Err(BadMessage::Channel));
        let whole = sent(Format::V1);
        for end in 0..whole.len() {
            assert!(read_binary(&whole[..end], Format::V1).is_err(), "{end}");
        }
        for frame in [&b""[..], &[0; 4], &[0, 0, 0, 1, 0, 0, 0, 4], &[255; 64], &[0; 64]] {
            assert!(read_binary(frame, Format::Json).is_err(), "{frame:?}");
            assert!(read_binary(frame, Format::V1).is_err(), "{frame:?}");
        }
    }
}
