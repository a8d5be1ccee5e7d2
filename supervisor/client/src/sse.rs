//! A decoder of `text/event-stream` (WHATWG HTML, 9.2.6): bytes in, cut wherever the network
//! cut them, events out.
//!
//! Must never hold more than one event of the size it is allowed, whatever is sent.

use std::collections::VecDeque;

use memchr::memchr2;

/// Why an event stream cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// An event that is larger than any of ours.
    #[error("an event has more than {max_bytes} bytes")]
    TooLarge {
        /// The most it may have.
        max_bytes: usize,
    },
    /// The data of an event is not what its type has.
    #[error("an event of type {event:?} cannot be read")]
    Data {
        /// The event's type.
        event: String,
        /// The reason.
        why: String,
    },
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The type; `message` if the stream gives none.
    pub event: String,
    /// The data, without the last line end.
    pub data: Vec<u8>,
    /// The last id so far in the stream; empty if there was none.
    pub id: String,
}

/// The state of the decoder.
#[derive(Debug)]
pub struct Decoder {
    max_bytes: usize,
    /// The line that has not ended yet.
    line: Vec<u8>,
    /// A carriage return ended the line before: a line feed now is its second half.
    after_return: bool,
    /// Nothing has been seen: a byte order mark is allowed.
    at_start: bool,
    event: String,
    data: Vec<u8>,
    id: String,
    ready: VecDeque<SseEvent>,
}

impl Decoder {
    /// A decoder that refuses events of more than `max_bytes`.
    #[must_use]
    pub const fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            after_return: false,
            at_start: true,
            event: String::new(),
            data: Vec::new(),
            id: String::new(),
            ready: VecDeque::new(),
        }
    }

    /// The next event that is complete.
    pub fn next_event(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// [`SseError::TooLarge`]; the stream is of no more use then.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), SseError> {
        while let Some(&first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && first == b'\n' {
                bytes = bytes.get(1..).unwrap_or_default();
                continue;
            }
            let end = memchr2(b'\r', b'\n', bytes);
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + self.data.len() + part.len() > self.max_bytes {
                return Err(SseError::TooLarge { max_bytes: self.max_bytes });
            }
            let Some((terminator, rest)) = rest.split_first() else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.after_return = *terminator == b'\r';
            if self.line.is_empty() {
                // Whole, as almost all are: without a copy.
                self.take_line(part);
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                self.take_line(&line);
                line.clear();
                self.line = line;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) {
        let line = if std::mem::take(&mut self.at_start) {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        } else {
            line
        };
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => {
                let (field, value) = line.split_at(colon);
                let value = value.get(1..).unwrap_or_default();
                (field, value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[] as &[u8]),
        };
        match field {
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            b"id" if !value.contains(&0) => self.id = String::from_utf8_lossy(value).into_owned(),
            // A comment, `retry`, or something newer.
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let event = std::mem::take(&mut self.event);
        let mut data = std::mem::take(&mut self.data);
        if data.pop().is_none() {
            return;
        }
        let event = if event.is_empty() { "message".to_owned() } else { event };
        self.ready.push_back(SseEvent { event, data, id: self.id.clone() });
    }
}

#[cfg(test)]
mod tests;
