//! Folding what an agent says about an execution into its events and its outcome.
//!
//! The caps are enforced here again, though the agent enforces them: it sits beside tenant code
//! and is not to be able to fill this process's memory either.

use std::collections::BTreeMap;
use std::sync::Arc;

use vivarium_api_types::{
    ChangedFile, Display as DisplayInfo, EncodedImage, OutputFile, OutputSpec, Place, ValueInfo,
};
use vivarium_protocol::message::{Changes, Completion, FileEntry, FromAgent, Noted, Stream};
use vivarium_protocol::outcome::{Account, Display, Exception, Value};
use vivarium_protocol::policy::Limits;

use super::execution_log::EventKind;

mod files;
mod mime;
mod order;
mod shown;
#[cfg(test)]
pub(super) mod tests;
mod text;

use files::Files;
pub use mime::{bundle as mime_bundle, sizes as mime_sizes};
use order::Order;
use shown::Shown;
use text::{Kept, Printed};

/// The most that is kept of each stream's text for the outcome of an execution whose client
/// follows it, in bytes: that client has seen the text.
const KEPT_WHEN_STREAMED_BYTES: usize = 256 << 10;

/// What a changed file takes besides its name, in bytes.
const CHANGE_BYTES: usize = 64;

/// What a value or a count takes besides its text, in bytes.
const COUNT_BYTES: usize = 32;

/// What has been said about one execution so far.
#[derive(Debug)]
pub(super) struct Collector {
    stdout: Printed,
    stderr: Printed,
    value: Option<Arc<ValueInfo>>,
    exception: Option<Arc<Exception>>,
    shown: Shown,
    order: Order,
    files: Files,
    changed: Vec<ChangedFile>,
    changed_more: bool,
    /// What its policies noted.
    account: Account,
    /// What they are to note.
    noted: Noted,
    max_result_bytes: usize,
    /// Of these, what value, displays and files have left.
    left: usize,
    oversized: bool,
    /// Whether something was dropped because the daemon had no room for it.
    starved: bool,
}

/// What was collected, in the words of the API.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Collected {
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
    pub(super) exception: Option<Exception>,
    pub(super) result: Option<Arc<ValueInfo>>,
    pub(super) displays: Vec<DisplayInfo>,
    pub(super) images: Vec<EncodedImage>,
    pub(super) video_frames: Vec<EncodedImage>,
    pub(super) order: Vec<Place>,
    pub(super) files: Vec<OutputFile>,
    pub(super) files_changed: Vec<ChangedFile>,
    pub(super) files_changed_more: bool,
    /// What its policies noted.
    pub(super) work: Option<u64>,
    pub(super) audit_events: Option<BTreeMap<String, u64>>,
    pub(super) prints: Option<Vec<Vec<String>>>,
    /// Whether a result was dropped for its size.
    pub(super) oversized: bool,
    /// Whether something was dropped because the daemon had no room for it.
    pub(super) starved: bool,
}

impl Collector {
    /// For an execution with these limits, that is to bring back these files. `streamed` says
    /// whether its client follows it.
    pub(super) fn new(limits: &Limits, outputs: Vec<OutputSpec>, streamed: bool) -> Self {
        let bytes = |limit: Option<u64>| {
            limit.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX))
        };
        let max_output = bytes(limits.max_output_bytes.get());
        let keep = if streamed { KEPT_WHEN_STREAMED_BYTES } else { usize::MAX };
        let max_result_bytes = bytes(limits.max_result_bytes.get());
        Self {
            stdout: Printed::new(max_output, keep),
            stderr: Printed::new(max_output, keep),
            value: None,
            exception: None,
            shown: Shown::default(),
            order: Order::default(),
            files: Files::new(outputs),
            changed: Vec::new(),
            changed_more: false,
            account: Account::default(),
            noted: Noted::default(),
            max_result_bytes,
            left: max_result_bytes,
            oversized: false,
            starved: false,
        }
    }

    /// For an execution of which this is noted: what is printed is in what is collected then, even if there is none.
    pub(super) fn noting(self, noted: Noted) -> Self {
        Self { noted, ..self }
    }

    /// Whether it may end so, with this account.
    pub(super) fn permits(&self, completion: Completion, account: &Account) -> bool {
        self.noted.permits_end(completion) && self.noted.permits(account)
    }

    pub(super) fn bytes(&self) -> usize {
        let results = self.max_result_bytes - self.left;
        let exception = self.exception.as_ref().map_or(0, |exception| {
            exception.type_name.len() + exception.message.len() + exception.traceback.len()
        });
        let printed = self.stdout.kept_bytes() + self.stderr.kept_bytes();
        printed + self.order.bytes() + results + exception
    }

    /// Forgets a message about the execution, of which the daemon can hold no more: it ends as it
    /// would if it had reached its limits. What tells of its end is small, and taken in.
    pub(super) fn forgo(&mut self, message: FromAgent) -> Option<EventKind> {
        match message {
            FromAgent::Output { stream, .. } => self.stream(stream).close(),
            FromAgent::Value { .. } | FromAgent::Display { .. } => {}
            FromAgent::File { file, .. } => self.files.add(file, |_| false),
            other => return self.fold(other),
        }
        self.starved = true;
        None
    }

    /// Takes in one message about the execution, and says what happened by it.
    pub(super) fn fold(&mut self, message: FromAgent) -> Option<EventKind> {
        match message {
            FromAgent::Output { stream, data, .. } => {
                let printed = self.stream(stream);
                let text = printed.push(data);
                let bytes = printed.text_bytes();
                self.order.printed(stream, bytes);
                (!text.is_empty()).then_some(EventKind::Output(stream, text))
            }
            FromAgent::Value { value, .. } => self.value(value),
            FromAgent::Exception { exception, .. } => self.exception_raised(exception),
            FromAgent::Display { display, .. } => self.display(display),
            FromAgent::File { file, .. } => {
                let left = &mut self.left;
                self.files.add(file, |bytes| take(left, bytes));
                None
            }
            FromAgent::Done { stdout_dropped, stderr_dropped, changes, account, .. } => {
                self.dropped(stdout_dropped, stderr_dropped);
                self.changed(changes);
                self.accounted(account);
                None
            }
            FromAgent::KernelExited { stdout_dropped, stderr_dropped, changes, .. } => {
                self.dropped(stdout_dropped, stderr_dropped);
                self.changed(changes);
                None
            }
            _ => None,
        }
    }

    /// What is left of the streams when nothing more comes.
    pub(super) fn rest(&mut self) -> Vec<EventKind> {
        let streams = [(Stream::Stdout, &mut self.stdout), (Stream::Stderr, &mut self.stderr)];
        let mut rest = Vec::new();
        for (stream, printed) in streams {
            let text = printed.finish();
            self.order.printed(stream, printed.text_bytes());
            if !text.is_empty() {
                rest.push(EventKind::Output(stream, text));
            }
        }
        rest
    }

    /// The exception that ended the execution, if that has been told.
    pub(super) fn exception(&self) -> Option<&Exception> {
        self.exception.as_deref()
    }

    fn stream(&mut self, stream: Stream) -> &mut Printed {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    fn value(&mut self, value: Value) -> Option<EventKind> {
        let bytes = mime::bytes(&value.mime) + value.repr.len() + value.type_name.len();
        if !self.fits(bytes) {
            return None;
        }
        let value = Arc::new(mime::describe(value));
        self.value = Some(Arc::clone(&value));
        self.order.returned();
        Some(EventKind::Value(value))
    }

    /// An exception has a bound of its own: it is not to be lost to what was shown before it.
    fn exception_raised(&mut self, exception: Exception) -> Option<EventKind> {
        let Exception { type_name, message, traceback } = &exception;
        if type_name.len() + message.len() + traceback.len() > self.max_result_bytes {
            self.oversized = true;
            return None;
        }
        let exception = Arc::new(exception);
        self.exception = Some(Arc::clone(&exception));
        self.order.raised();
        Some(EventKind::Exception(exception))
    }

    fn display(&mut self, display: Display) -> Option<EventKind> {
        if !self.fits(self.shown.bytes_for(&display)) {
            return None;
        }
        let display = Arc::new(display);
        self.left += self.shown.add(&display);
        self.order.shown(&display);
        Some(EventKind::Display(display))
    }

    const fn dropped(&mut self, stdout: u64, stderr: u64) {
        self.stdout.dropped(stdout);
        self.stderr.dropped(stderr);
    }

    fn changed(&mut self, changes: Changes) {
        self.changed_more = changes.more;
        let changed = |entry: FileEntry| ChangedFile {
            name: entry.path,
            size_bytes: entry.size_bytes,
            deleted: false,
        };
        let deleted = |name| ChangedFile { name, size_bytes: 0, deleted: true };
        let all = changes.files.into_iter().map(changed);
        for file in all.chain(changes.deleted.into_iter().map(deleted)) {
            if !take(&mut self.left, file.name.len() + CHANGE_BYTES) {
                self.changed_more = true;
                break;
            }
            self.changed.push(file);
        }
    }

    /// Lists that do not fit are left out, each as a whole.
    fn accounted(&mut self, Account { work, audit_events, prints }: Account) {
        let of_events = |(name, _): &(String, u64)| name.len() + COUNT_BYTES;
        let of_call = |values: &Vec<String>| {
            values.iter().map(|value| value.len() + COUNT_BYTES).sum::<usize>() + COUNT_BYTES
        };
        let events = audit_events.iter().flatten().map(of_events).sum();
        let printed = prints.iter().map(of_call).sum();
        self.account.work = work;
        if self.fits(events) {
            self.account.audit_events = audit_events;
        }
        if self.fits(printed) {
            self.account.prints = prints;
        }
    }

    const fn fits(&mut self, bytes: usize) -> bool {
        let fits = take(&mut self.left, bytes);
        self.oversized |= !fits;
        fits
    }

    pub(super) fn finish(self) -> Collected {
        Collected {
            stdout: self.stdout.into_kept(),
            stderr: self.stderr.into_kept(),
            exception: self.exception.map(Arc::unwrap_or_clone),
            result: self.value,
            displays: self.shown.displays(),
            images: self.shown.images(),
            video_frames: self.shown.video_frames(),
            order: self.order.finish(),
            files: self.files.finish(),
            files_changed: self.changed,
            files_changed_more: self.changed_more,
            work: self.account.work,
            audit_events: self.account.audit_events.map(|counts| counts.into_iter().collect()),
            prints: self.noted.prints.then_some(self.account.prints),
            oversized: self.oversized,
            starved: self.starved,
        }
    }
}

/// Takes so many bytes from what is left, if there are as many.
const fn take(left: &mut usize, bytes: usize) -> bool {
    match left.checked_sub(bytes) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}
