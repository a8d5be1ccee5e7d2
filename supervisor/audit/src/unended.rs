//! Calls that waited for approval when the daemon was killed: whoever reads the log is to see that nobody
//! allowed them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::{ApprovalAsked, ApprovalEnded, Event};

/// Calls that began to wait and have no end so far, by their approval.
#[derive(Debug, Default)]
pub(crate) struct Unended(BTreeMap<String, ApprovalAsked>);

#[derive(Deserialize)]
struct Ended {
    approval: String,
}

impl Unended {
    /// Takes note of a whole line, by its event, of which the name comes first.
    pub(crate) fn note(&mut self, event: &[u8], line: &[u8]) {
        if event.starts_with(b"approval_asked\"") {
            let asked = serde_json::from_slice(line);
            self.0.extend(asked.ok().map(|it: ApprovalAsked| (it.approval.clone(), it)));
        } else if event.starts_with(b"approval_ended\"")
            && let Ok(Ended { approval }) = serde_json::from_slice(line)
        {
            self.0.remove(&approval);
        }
    }

    /// Their ends, for the next daemon to write.
    pub(crate) fn interrupted(self) -> impl Iterator<Item = Event> {
        self.0.into_values().map(|asked| {
            Event::ApprovalEnded(Box::new(ApprovalEnded {
                asked,
                outcome: "interrupted",
                by: None,
                reason: None,
                remember: "nothing",
            }))
        })
    }
}
