//! Progress of a tool call, for a client that gave a token: what the code prints, as it prints it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::rpc;

/// The least time between two notifications: 10 a second.
const APART: Duration = Duration::from_millis(100);

/// How often a client is told that code runs which prints nothing.
const SILENCE: Duration = Duration::from_secs(5);

/// The most of what is printed that one notification repeats, in bytes: the last of it.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// Where the notifications of one request go.
#[derive(Debug, Clone)]
pub struct Progress {
    token: Value,
    to: mpsc::Sender<Value>,
}

impl Progress {
    /// The progress that a request asks for, if it does.
    pub fn wanted(request: &rpc::Request, to: &mpsc::Sender<Value>) -> Option<Self> {
        let token = request.meta("progressToken")?;
        let is_token = rpc::Id::read(token).is_some();
        is_token.then(|| Self { token: token.clone(), to: to.clone() })
    }
}

/// Tells of one execution.
#[derive(Debug)]
pub(super) struct Report<'a> {
    progress: &'a Progress,
    began: Instant,
    last: Instant,
    pending: String,
}

impl<'a> Report<'a> {
    pub(super) fn new(progress: &'a Progress) -> Self {
        let now = Instant::now();
        Self { progress, began: now, last: now, pending: String::new() }
    }

    /// Takes what was printed.
    pub(super) fn printed(&mut self, text: &str) {
        self.pending.push_str(text);
        if let Some(excess) = self.pending.len().checked_sub(MAX_TEXT_BYTES) {
            let cut = (excess..self.pending.len()).find(|at| self.pending.is_char_boundary(*at));
            self.pending.drain(..cut.unwrap_or(self.pending.len()));
        }
    }

    /// When to tell next.
    pub(super) fn due(&self) -> Instant {
        self.last + if self.pending.is_empty() { SILENCE } else { APART }
    }

    /// Tells what there is. A client that reads too slowly misses some.
    pub(super) fn tell(&mut self) {
        self.last = Instant::now();
        let mut params = json!({
            "progressToken": self.progress.token,
            "progress": self.began.elapsed().as_secs_f64(),
        });
        if let (false, Some(members)) = (self.pending.is_empty(), params.as_object_mut()) {
            members.insert("message".to_owned(), json!(self.pending));
        }
        if self.progress.to.try_send(rpc::notification("notifications/progress", params)).is_ok() {
            self.pending.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn last_of_what_is_printed_is_told_and_kept_for_a_slow_reader() {
        let (to, mut from) = mpsc::channel(1);
        let progress = Progress { token: json!("t"), to };
        let mut report = Report::new(&progress);
        assert_eq!(report.due(), Instant::now() + SILENCE);
        report.printed(&"é".repeat(MAX_TEXT_BYTES));
        assert_eq!(report.due(), Instant::now() + APART);
        tokio::time::advance(APART).await;
        report.tell();
        report.printed("more");
        report.tell();
        let told = from.recv().await.unwrap();
        assert_eq!(told["params"]["progress"], 0.1);
        assert_eq!(told["params"]["message"].as_str().unwrap().len(), MAX_TEXT_BYTES);
        report.tell();
        assert_eq!(from.recv().await.unwrap()["params"]["message"], "more");
    }
}
