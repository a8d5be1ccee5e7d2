//! Output of executions.

use super::Family;
use crate::MetricsError;
use crate::handles::Counter;
use crate::register::Register;

/// One of a kernel's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

#[derive(Debug)]
pub struct Output {
    bytes: Counter<2>,
    truncated: Counter<2>,
}

impl Family for Output {
    const TITLE: &'static str = "Output";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            bytes: register.counter(
                "vivarium_output_bytes_total",
                &["tenant", "stream"],
                "Bytes that executions printed and outcomes passed on.",
            )?,
            truncated: register.counter(
                "vivarium_output_truncated_total",
                &["tenant", "stream"],
                "Executions that printed more than `max_output_bytes`.",
            )?,
        })
    }

    fn introduce(&self, tenant: &str) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.bytes.begin([tenant, stream.name()]);
            self.truncated.begin([tenant, stream.name()]);
        }
    }
}

impl Output {
    /// An execution has printed so many bytes, and more if `truncated`.
    pub fn printed(&self, tenant: &str, stream: Stream, bytes: u64, truncated: bool) {
        self.bytes.add([tenant, stream.name()], bytes);
        if truncated {
            self.truncated.add_one([tenant, stream.name()]);
        }
    }
}
