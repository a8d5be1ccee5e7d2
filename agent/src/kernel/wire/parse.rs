//! Taking one frame apart. Every length is bounded before what it announces is copied.

use std::collections::BTreeMap;

use serde::Deserialize;
use vivarium_protocol::message::{Completion, ExecutionNumber};
use vivarium_protocol::outcome::{Account, Display, DisplayKind, Exception, MimePart, Value};

use super::{FromKernel, WireError};

/// The most bytes of each string, as in `agent/python/core/wire.py`.
pub(super) const TEXT_MAX_BYTES: usize = 1 << 20;
const NAME_MAX_BYTES: usize = 4 << 10;
const MESSAGE_MAX_BYTES: usize = 64 << 10;
const TRACEBACK_MAX_BYTES: usize = 256 << 10;

/// Of an account, as in `agent/python/core/wire.py`: its JSON, distinct events, calls of `print`, and values of a call.
const ACCOUNT_MAX_BYTES: usize = 256 << 10;
const AUDIT_EVENTS_MAX: usize = 257;
const PRINTS_MAX: usize = 1000;
const PRINT_VALUES_MAX: usize = 64;

/// The most representations of one value.
const MIME_PARTS_MAX: usize = 64;

/// One frame, without its length.
pub(super) fn parse(body: &[u8]) -> Result<FromKernel, WireError> {
    let (&kind, rest) = body.split_first().ok_or(WireError::Empty)?;
    let parse_payload = match kind {
        1 => |_: &mut Fields<'_>| Ok(FromKernel::Ready),
        2 => parse_value,
        3 => parse_exception,
        4 => parse_done,
        5 => |fields: &mut Fields<'_>| Ok(FromKernel::Started { execution: fields.execution()? }),
        6 => parse_display,
        7 => parse_account,
        unknown => return Err(WireError::UnknownType(unknown)),
    };
    let frame = ["READY", "VALUE", "EXCEPTION", "DONE", "STARTED", "DISPLAY", "ACCOUNT"]
        .get(usize::from(kind).wrapping_sub(1))
        .copied()
        .unwrap_or("unknown");
    let mut fields = Fields { frame, rest };
    let message = parse_payload(&mut fields)?;
    match fields.rest.len() {
        0 => Ok(message),
        len => Err(WireError::Trailing { frame, len }),
    }
}

fn parse_value(fields: &mut Fields<'_>) -> Result<FromKernel, WireError> {
    const TEXT_PLAIN: &str = "text/plain";
    let execution = fields.execution()?;
    let repr = fields.string("repr", TEXT_MAX_BYTES)?;
    let type_name = fields.string("type", NAME_MAX_BYTES)?;
    let mut mime = fields.mime(MIME_PARTS_MAX)?;
    // Only an answer about code has no type: every class has a name here.
    if !type_name.is_empty() && mime.iter().all(|part| part.mime_type != TEXT_PLAIN) {
        mime.insert(0, MimePart { mime_type: TEXT_PLAIN.into(), data: repr.clone().into() });
    }
    Ok(FromKernel::Value { execution, value: Value { repr, type_name, mime } })
}

fn parse_exception(fields: &mut Fields<'_>) -> Result<FromKernel, WireError> {
    let execution = fields.execution()?;
    let type_name = fields.string("type", NAME_MAX_BYTES)?;
    let message = fields.string("message", MESSAGE_MAX_BYTES)?;
    let traceback = fields.string("traceback", TRACEBACK_MAX_BYTES)?;
    Ok(FromKernel::Exception { execution, exception: Exception { type_name, message, traceback } })
}

fn parse_display(fields: &mut Fields<'_>) -> Result<FromKernel, WireError> {
    let execution = fields.execution()?;
    let [kind] = fields.array("kind")?;
    let kind = match kind {
        0 => DisplayKind::Display,
        1 => DisplayKind::Update,
        2 => DisplayKind::Clear,
        3 => DisplayKind::Image,
        4 => DisplayKind::VideoFrame,
        unknown => return Err(WireError::UnknownDisplayKind(unknown)),
    };
    let id = fields.string("display id", NAME_MAX_BYTES)?;
    let mime = fields.mime(if kind == DisplayKind::Clear { 0 } else { MIME_PARTS_MAX })?;
    let id = (!id.is_empty()).then_some(id);
    Ok(FromKernel::Display { execution, display: Display { kind, id, mime } })
}

fn parse_done(fields: &mut Fields<'_>) -> Result<FromKernel, WireError> {
    let execution = fields.execution()?;
    let [completion] = fields.array("completion")?;
    let completion = match completion {
        0 => Completion::Ok,
        1 => Completion::Error,
        2 => Completion::Interrupted,
        3 => Completion::WorkLimit,
        unknown => return Err(WireError::UnknownCompletion(unknown)),
    };
    Ok(FromKernel::Done { execution, completion })
}

fn parse_account(fields: &mut Fields<'_>) -> Result<FromKernel, WireError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Noted {
        work: Option<u64>,
        audit_events: Option<BTreeMap<String, u64>>,
        #[serde(default)]
        prints: Vec<Vec<String>>,
    }
    let execution = fields.execution()?;
    let text = fields.string("account", ACCOUNT_MAX_BYTES)?;
    let bad = |what: &str| WireError::BadAccount(what.to_owned());
    let Noted { work, audit_events, prints } =
        serde_json::from_str(&text).map_err(|error| bad(&error.to_string()))?;
    if audit_events.as_ref().is_some_and(|events| events.len() > AUDIT_EVENTS_MAX) {
        return Err(bad("more audit events than there may be"));
    }
    if prints.len() > PRINTS_MAX || prints.iter().any(|values| values.len() > PRINT_VALUES_MAX) {
        return Err(bad("more printed values than there may be"));
    }
    let audit_events = audit_events.map(|events| events.into_iter().collect());
    Ok(FromKernel::Account { execution, account: Account { work, audit_events, prints } })
}

/// What is left of a frame's fields.
struct Fields<'a> {
    frame: &'static str,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], WireError> {
        let frame = self.frame;
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or(WireError::Short { frame, field })?;
        self.rest = rest;
        Ok(*taken)
    }

    fn execution(&mut self) -> Result<ExecutionNumber, WireError> {
        self.array("execution").map(u64::from_le_bytes)
    }

    /// A length or count, refused if over `max`.
    fn length(&mut self, field: &'static str, max: usize) -> Result<usize, WireError> {
        let len = u32::from_le_bytes(self.array(field)?) as usize;
        if len > max {
            return Err(WireError::TooLarge { frame: self.frame, field, len, max });
        }
        Ok(len)
    }

    fn blob(&mut self, field: &'static str, max: usize) -> Result<&'a [u8], WireError> {
        let len = self.length(field, max)?;
        let short = WireError::Short { frame: self.frame, field };
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn string(&mut self, field: &'static str, max: usize) -> Result<String, WireError> {
        let frame = self.frame;
        let bytes = self.blob(field, max)?;
        let text = str::from_utf8(bytes).map_err(|_| WireError::NotText { frame, field })?;
        Ok(text.to_owned())
    }

    /// Representations, of which there may be `max`. Their size is bounded by the frame's.
    fn mime(&mut self, max: usize) -> Result<Vec<MimePart>, WireError> {
        let count = self.length("count of representations", max)?;
        let mut mime = Vec::with_capacity(count + 1);
        for _ in 0..count {
            let mime_type = self.string("MIME type", NAME_MAX_BYTES)?;
            let data = self.blob("representation", usize::MAX)?.to_vec();
            mime.push(MimePart { mime_type, data });
        }
        Ok(mime)
    }
}
