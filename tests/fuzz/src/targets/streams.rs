//! Parsers of bytes that come in pieces.

use vivarium_protocol::content::{Chunks, Piece};
use vivarium_protocol::frame::{self, PREFIX_BYTES};
use vivarium_protocol::message::{
    FromAgent, FromLauncher, FromTemplate, Noted, ToAgent, ToLauncher,
};
use vivarium_protocol::sequence::Sequence;

use super::cut;
use crate::calls_wire;
use crate::envelope;
use crate::kernel_wire::{self, FromKernel, Turn};
use crate::sse::{self, SseEvent};
use crate::tar::{Event, Parser};

const EVERYTHING: Noted = Noted { max_work: Some(u64::MAX), audit_events: true, prints: true };

/// The most bytes of a frame here: an input is far smaller.
const MAX_BYTES: usize = 64 << 10;

/// What a tenant's kernel sends, and whether it may send it now.
pub fn kernel_wire(data: &[u8]) {
    let Some((whole, parts)) = cut(data) else { return };
    let read = |pieces: &[&[u8]]| {
        let mut decoder = kernel_wire::Decoder::new(MAX_BYTES);
        let mut turn = Turn::default();
        let mut said = Vec::new();
        for piece in pieces {
            decoder.push(piece);
            loop {
                match decoder.next() {
                    Ok(None) => break,
                    Ok(Some(message)) => {
                        let is_right = turn.accept(&message).is_ok();
                        if matches!(message, FromKernel::Ready | FromKernel::Done { .. })
                            && is_right
                        {
                            turn.sent(1, EVERYTHING);
                        }
                        said.push(Ok((message, is_right)));
                    }
                    // Nothing is read after an error: the kernel is killed.
                    Err(error) => {
                        said.push(Err(error.to_string()));
                        return said;
                    }
                }
            }
        }
        said
    };
    assert_eq!(read(&[whole]), read(&parts));
}

/// What a kernel sends the supervisor of its calls.
pub fn calls_wire(data: &[u8]) {
    let Some((whole, parts)) = cut(data) else { return };
    let read = |pieces: &[&[u8]]| {
        let mut decoder = frame::Decoder::new(MAX_BYTES);
        let mut said = Vec::new();
        for piece in pieces {
            decoder.push(piece);
            loop {
                match decoder.next_with(calls_wire::parse) {
                    Ok(None) => break,
                    Ok(Some(message)) => said.push(Ok(message)),
                    // Nothing is read after an error: the pipe is closed.
                    Err(error) => {
                        said.push(Err(error));
                        return said;
                    }
                }
            }
        }
        said
    };
    assert_eq!(read(&[whole]), read(&parts));
}

/// What the processes of a session send each other and the supervisor.
pub fn frames(data: &[u8]) {
    let Some((whole, parts)) = cut(data) else { return };
    let read = |pieces: &[&[u8]]| {
        let mut decoder = frame::Decoder::new(MAX_BYTES);
        let mut sequence = Sequence::default();
        sequence.open(1);
        let mut said = Vec::new();
        for piece in pieces {
            decoder.push(piece);
            loop {
                match decoder.next_message::<FromAgent>() {
                    Ok(None) => break,
                    Ok(Some(message)) => {
                        let is_right = sequence.accept(&message).is_ok();
                        for context in [0, 1] {
                            if sequence.is_ready(context) {
                                sequence.sent(context, context.into());
                            }
                        }
                        said.push(format!("{message:?} {is_right}"));
                    }
                    Err(error) => {
                        said.push(error.to_string());
                        return said;
                    }
                }
            }
        }
        said
    };
    assert_eq!(read(&[whole]), read(&parts));
    again::<FromAgent>(whole);
    again::<ToAgent>(whole);
    again::<FromLauncher>(whole);
    again::<ToLauncher>(whole);
    again::<FromTemplate>(whole);
}

/// A message that was read is written and read again as the same.
fn again<T: serde::Serialize + serde::de::DeserializeOwned + std::fmt::Debug>(body: &[u8]) {
    let Ok(message) = frame::decode::<T>(body) else { return };
    let Ok(bytes) = frame::encode(&message, MAX_BYTES) else { return };
    let read: T = frame::decode(bytes.get(PREFIX_BYTES..).unwrap()).unwrap();
    assert_eq!(format!("{message:?}"), format!("{read:?}"));
}

/// A content that comes in chunks.
pub fn chunks(data: &[u8]) {
    let Some((whole, parts)) = cut(data) else { return };
    let read = |pieces: &[&[u8]]| {
        let (mut chunks, mut content) = (Chunks::default(), Vec::new());
        for piece in pieces {
            let mut input: &[u8] = piece;
            loop {
                let before = input.len();
                match chunks.next(&mut input) {
                    Ok(Piece::Nothing) => {
                        assert!(input.is_empty());
                        break;
                    }
                    Ok(Piece::Data(data)) => {
                        assert!(input.len() < before && !data.is_empty());
                        content.extend_from_slice(data);
                    }
                    Ok(Piece::End) => return (content, "end"),
                    Err(_) => return (content, "error"),
                }
            }
        }
        (content, "more")
    };
    let found = read(&[whole]);
    assert!(found.0.len() <= whole.len());
    assert_eq!(found, read(&parts));
}

/// An archive of a stranger's.
pub fn tar(data: &[u8]) {
    let Some((whole, parts)) = cut(data) else { return };
    assert_eq!(unpacked(&[whole]), unpacked(&parts));
}

/// What is said of an archive, file by file.
fn unpacked(pieces: &[&[u8]]) -> Vec<String> {
    let (mut parser, mut said, mut content) = (Parser::default(), Vec::new(), None::<Vec<u8>>);
    for piece in pieces {
        let mut input: &[u8] = piece;
        loop {
            match parser.next(&mut input) {
                Ok(Event::Nothing) => {
                    assert!(input.is_empty());
                    break;
                }
                Ok(Event::Directory(name)) => said.push(format!("directory {name:?}")),
                Ok(Event::File { name, executable }) => {
                    assert!(content.is_none(), "a file in a file");
                    content = Some(Vec::new());
                    said.push(format!("file {name:?} {executable}"));
                }
                Ok(Event::Data(data)) => {
                    content.as_mut().expect("data of a file").extend_from_slice(data);
                }
                Ok(Event::FileEnd) => {
                    let content = content.take().expect("the end of a file");
                    said.push(format!("{content:?}"));
                }
                Err(error) => {
                    said.push(error.to_string());
                    return said;
                }
            }
        }
    }
    said.push(format!("{:?}", parser.finish().map_err(|error| error.to_string())));
    said
}

/// Events, as the client reads them from a daemon.
pub fn sse(data: &[u8]) {
    const EVENT_MAX_BYTES: usize = 256;
    let Some((whole, parts)) = cut(data) else { return };
    let read = |pieces: &[&[u8]]| -> (Vec<SseEvent>, bool) {
        let (mut decoder, mut events) = (sse::Decoder::new(EVENT_MAX_BYTES), Vec::new());
        for piece in pieces {
            let result = decoder.feed(piece);
            events.extend(std::iter::from_fn(|| decoder.next_event()));
            if result.is_err() {
                return (events, false);
            }
        }
        (events, true)
    };
    let found = read(&[whole]);
    assert!(found.0.iter().all(|event| event.data.len() <= EVENT_MAX_BYTES));
    assert_eq!(found, read(&parts));
}

/// What a client of E2B streams: the same messages come out of it however it is cut, none is larger than
/// one may be, and what was taken for a message is one in its envelope again.
pub fn envelopes(data: &[u8]) {
    let Some((whole, parts)) = cut(data) else { return };
    let read = |pieces: &[&[u8]]| {
        let (mut decoder, mut said) = (envelope::Decoder::default(), Vec::new());
        for piece in pieces {
            decoder.feed(piece);
            loop {
                match decoder.next_message() {
                    Ok(None) => break,
                    Ok(Some(message)) => said.push(Ok(message)),
                    // Nothing is read after an error: the call has failed.
                    Err(error) => {
                        said.push(Err(error));
                        return (said, None);
                    }
                }
            }
        }
        let end = decoder.end();
        (said, Some(end))
    };
    let (said, end) = read(&[whole]);
    assert_eq!((said.clone(), end), read(&parts));
    for message in said.into_iter().flatten() {
        assert!(message.len() <= envelope::MAX_MESSAGE_BYTES);
        let Ok(value) = serde_json::from_slice::<serde_json::Value>(&message) else { continue };
        let again = envelope::one(&envelope::message(&value)).unwrap();
        assert_eq!(again, value.to_string().into_bytes());
    }
}
