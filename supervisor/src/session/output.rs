//! Folding what an agent says about an execution into its outcome.
//!
//! The caps are enforced here again, though the agent enforces them: it sits beside tenant code
//! and is not to be able to fill this process's memory either.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vivarium_protocol::message::{FromAgent, Stream};
use vivarium_protocol::outcome::{Exception, MimePart, Value};
use vivarium_protocol::policy::Limits;

use crate::engine::types::ValueInfo;

/// What has been said about one execution so far.
#[derive(Debug)]
pub(super) struct Collector {
    stdout: Capped,
    stderr: Capped,
    value: Option<Value>,
    exception: Option<Exception>,
    max_result_bytes: usize,
    oversized: bool,
}

/// What was collected, in the words of the API.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Collected {
    pub(super) stdout: String,
    pub(super) stdout_truncated: bool,
    pub(super) stderr: String,
    pub(super) stderr_truncated: bool,
    pub(super) exception: Option<Exception>,
    pub(super) result: Option<ValueInfo>,
    /// Whether a result was dropped for its size.
    pub(super) oversized: bool,
}

impl Collector {
    pub(super) fn new(limits: &Limits) -> Self {
        let bytes = |limit: Option<u64>| {
            limit.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
        };
        let max_output = bytes(limits.max_output_bytes.get());
        Self {
            stdout: Capped::new(max_output),
            stderr: Capped::new(max_output),
            value: None,
            exception: None,
            max_result_bytes: bytes(limits.max_result_bytes.get()),
            oversized: false,
        }
    }

    /// Takes in one message about the execution. Those that end it bring the counts of what
    /// the agent dropped.
    pub(super) fn fold(&mut self, message: FromAgent) {
        match message {
            FromAgent::Output { stream: Stream::Stdout, data, .. } => self.stdout.push(&data),
            FromAgent::Output { stream: Stream::Stderr, data, .. } => self.stderr.push(&data),
            FromAgent::Value { value, .. } => {
                let parts = value.mime.iter().map(|part| part.mime_type.len() + part.data.len());
                let bytes = parts.sum::<usize>() + value.repr.len() + value.type_name.len();
                self.value = self.fits(bytes).then_some(value);
            }
            FromAgent::Exception { exception, .. } => {
                let Exception { type_name, message, traceback } = &exception;
                let bytes = type_name.len() + message.len() + traceback.len();
                self.exception = self.fits(bytes).then_some(exception);
            }
            FromAgent::Done { stdout_dropped, stderr_dropped, .. }
            | FromAgent::KernelExited { stdout_dropped, stderr_dropped, .. } => {
                self.stdout.truncated |= stdout_dropped > 0;
                self.stderr.truncated |= stderr_dropped > 0;
            }
            _ => {}
        }
    }

    /// The exception that ended the execution, if that has been told.
    pub(super) const fn exception(&self) -> Option<&Exception> {
        self.exception.as_ref()
    }

    const fn fits(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.max_result_bytes;
        self.oversized |= !fits;
        fits
    }

    pub(super) fn finish(self) -> Collected {
        let (stdout_truncated, stderr_truncated) = (self.stdout.truncated, self.stderr.truncated);
        Collected {
            stdout: self.stdout.into_text(),
            stdout_truncated,
            stderr: self.stderr.into_text(),
            stderr_truncated,
            exception: self.exception,
            result: self.value.map(describe),
            oversized: self.oversized,
        }
    }
}

/// The first bytes of a stream.
#[derive(Debug)]
struct Capped {
    bytes: Vec<u8>,
    max: usize,
    truncated: bool,
}

impl Capped {
    const fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max, truncated: false }
    }

    fn push(&mut self, data: &[u8]) {
        let room = self.max.saturating_sub(self.bytes.len());
        let kept = data.get(..room).unwrap_or(data);
        self.truncated |= kept.len() < data.len();
        self.bytes.extend_from_slice(kept);
    }

    /// As UTF-8 with replacement. A character that the cap cut in two is left out.
    fn into_text(self) -> String {
        String::from_utf8(self.bytes).unwrap_or_else(|error| {
            let cut_at_end = self.truncated && error.utf8_error().error_len().is_none();
            let valid = error.utf8_error().valid_up_to();
            let bytes = error.as_bytes();
            let kept = if cut_at_end { bytes.get(..valid).unwrap_or_default() } else { bytes };
            String::from_utf8_lossy(kept).into_owned()
        })
    }
}

fn describe(value: Value) -> ValueInfo {
    let mime = value.mime.into_iter().map(|part| (part.mime_type.clone(), encode(part))).collect();
    ValueInfo { repr: value.repr, type_name: value.type_name, mime }
}

/// Text as it is, everything else in base64.
fn encode(part: MimePart) -> String {
    let kind = part.mime_type.split(';').next().unwrap_or_default().trim();
    let is_text = kind.starts_with("text/")
        || kind.ends_with("+json")
        || kind.ends_with("+xml")
        || matches!(kind, "application/json" | "application/javascript" | "application/xml");
    if is_text {
        String::from_utf8_lossy(&part.data).into_owned()
    } else {
        STANDARD.encode(part.data)
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use vivarium_protocol::policy::CpuCores;
    use vivarium_protocol::units::Limit;

    /// Limits for tests: ten bytes of output and of results.
    pub(in crate::session) fn limits() -> Limits {
        let at = |n| Limit::new(n).unwrap();
        Limits {
            max_memory_mb: at(64),
            max_cpu_secs: at(2),
            max_procs: at(8),
            max_open_fds: at(64),
            max_file_size_mb: at(1),
            max_disk_mb: at(1),
            max_inodes: at(64),
            cpu_cores: CpuCores::ONE,
            max_output_bytes: at(10),
            max_result_bytes: at(10),
        }
    }

    fn output(stream: Stream, data: &[u8]) -> FromAgent {
        FromAgent::Output { execution: 1, stream, data: data.to_vec() }
    }

    #[test]
    fn output_is_kept_apart_and_capped() {
        let mut collector = Collector::new(&limits());
        collector.fold(output(Stream::Stdout, b"12345"));
        collector.fold(output(Stream::Stderr, b"oh"));
        collector.fold(output(Stream::Stdout, b"67890"));
        let exact = collector.stdout.truncated;
        collector.fold(output(Stream::Stdout, b"x"));
        let collected = collector.finish();
        assert!(!exact);
        assert_eq!((collected.stdout.as_str(), collected.stdout_truncated), ("1234567890", true));
        assert_eq!((collected.stderr.as_str(), collected.stderr_truncated), ("oh", false));
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced_and_cut_characters_left_out() {
        let mut collector = Collector::new(&limits());
        collector.fold(output(Stream::Stdout, b"a\xffb"));
        collector.fold(output(Stream::Stderr, "123456789é".as_bytes()));
        let collected = collector.finish();
        assert_eq!(collected.stdout, "a\u{fffd}b");
        assert_eq!((collected.stderr.as_str(), collected.stderr_truncated), ("123456789", true));
    }

    #[test]
    fn what_the_agent_dropped_is_told() {
        let mut collector = Collector::new(&limits());
        collector.fold(FromAgent::Done {
            execution: 1,
            completion: vivarium_protocol::message::Completion::Ok,
            stdout_dropped: 1,
            stderr_dropped: 0,
            usage: vivarium_protocol::outcome::Usage::default(),
        });
        let collected = collector.finish();
        assert!(collected.stdout_truncated && !collected.stderr_truncated);
    }

    #[test]
    fn results_are_capped_and_encoded_by_type() {
        let value = |repr: &str, data: &[u8]| FromAgent::Value {
            execution: 1,
            value: Value {
                repr: repr.into(),
                type_name: "T".into(),
                mime: vec![MimePart { mime_type: "a/b".into(), data: data.to_vec() }],
            },
        };
        let mut collector = Collector::new(&limits());
        collector.fold(value("r", b"\xff\0"));
        let collected = collector.finish();
        assert_eq!(collected.result.unwrap().mime.get("a/b").unwrap(), "/wA=");
        let mut collector = Collector::new(&limits());
        collector.fold(value("0123456789", b""));
        let collected = collector.finish();
        assert_eq!((collected.result, collected.oversized), (None, true));
    }
}
