//! The events of an execution.

use serde::de::DeserializeOwned;
use vivarium_api_types::{
    AwaitingApprovalEvent, CallEndedEvent, CallEvent, DisplayEvent, DoneEvent, OutputEvent,
    StartedEvent, ValueInfo,
};
use vivarium_protocol::outcome::Exception;

use super::sse::{SseError, SseEvent};

/// One event of an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// It waits until somebody allows it.
    AwaitingApproval(AwaitingApprovalEvent),
    /// The execution began.
    Started(StartedEvent<'static>),
    /// Output on standard output.
    Stdout(String),
    /// Output on standard error.
    Stderr(String),
    /// Something was displayed.
    Display(DisplayEvent<'static>),
    /// The value of the final expression.
    Result(ValueInfo),
    /// The exception that ended it.
    Error(Exception),
    /// Code calls a function of its client's, and waits for the answer.
    Call(CallEvent),
    /// A call waits no more.
    CallEnded(CallEndedEvent),
    /// Events are missing here: the reader was away or slow, and the daemon has dropped them.
    Gap,
    /// The execution is over. The last event.
    Done(Box<DoneEvent<'static>>),
}

/// The event; none if its type is newer than this version.
pub(super) fn read(event: &SseEvent) -> Result<Option<Event>, SseError> {
    let text = |event| data(event).map(|output: OutputEvent<'static>| output.text.into_owned());
    Ok(Some(match event.event.as_str() {
        "awaiting_approval" => Event::AwaitingApproval(data(event)?),
        "started" => Event::Started(data(event)?),
        "stdout" => Event::Stdout(text(event)?),
        "stderr" => Event::Stderr(text(event)?),
        "display" => Event::Display(data(event)?),
        "result" => Event::Result(data(event)?),
        "error" => Event::Error(data(event)?),
        "call" => Event::Call(data(event)?),
        "call_ended" => Event::CallEnded(data(event)?),
        "done" => Event::Done(Box::new(data(event)?)),
        _ => return Ok(None),
    }))
}

pub(super) fn data<T: DeserializeOwned>(event: &SseEvent) -> Result<T, SseError> {
    serde_json::from_slice(&event.data)
        .map_err(|error| SseError::Data { event: event.event.clone(), why: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vivarium_api_types::CallOutcome;
    use vivarium_protocol::outcome::{DisplayKind, State, Status};

    fn event(event: &str, data: &str) -> SseEvent {
        SseEvent { event: event.into(), data: data.into(), id: String::new() }
    }

    #[test]
    fn every_event_type_is_read_and_newer_types_are_skipped() {
        let of = |name, data| read(&event(name, data)).unwrap();
        assert_eq!(of("stdout", r#"{"text": "a"}"#), Some(Event::Stdout("a".into())));
        assert_eq!(of("stderr", r#"{"text": "b"}"#), Some(Event::Stderr("b".into())));
        let Some(Event::Display(shown)) =
            of("display", r#"{"kind": "video_frame", "id": null, "mime": {"image/png": "eA=="}}"#)
        else {
            panic!()
        };
        assert_eq!((shown.kind, shown.mime.len()), (DisplayKind::VideoFrame, 1));
        let call = r#"{"execution_id": "1", "session_id": "s", "call_id": "2", "tool": "look",
            "arguments": {"b": 1, "a": 2}, "expires_at": "2026-01-01T00:00:00Z"}"#;
        let Some(Event::Call(call)) = of("call", call) else { panic!() };
        assert_eq!((&*call.tool, call.arguments.as_str()), ("look", r#"{"b": 1, "a": 2}"#));
        let ended =
            r#"{"execution_id": "1", "session_id": "s", "call_id": "2", "outcome": "timeout"}"#;
        let Some(Event::CallEnded(ended)) = of("call_ended", ended) else { panic!() };
        assert_eq!(ended.outcome, CallOutcome::Timeout);
        let done = r#"{"execution_id": "1", "session_id": "s", "status": "killed",
            "cause": "memory_limit", "detail": "d", "state": "lost", "exit_code": null,
            "kernel": {"context": "main", "generation": 2, "fresh": true, "previous_end": null},
            "session_created": true,
            "stdout_truncated": false, "stderr_truncated": false, "files": [],
            "files_changed": [], "files_changed_more": false, "duration_ms": 1.5,
            "usage": {"cpu_ms": 1.0, "memory_peak_bytes": 1}}"#;
        let Some(Event::Done(done)) = of("done", done) else { panic!() };
        assert_eq!((done.status, done.state), (Status::Killed, State::Lost));
        assert_eq!(of("progress", "{}"), None);
    }

    #[test]
    fn malformed_data_is_an_error_that_names_the_event_type() {
        let error = read(&event("done", "{}")).unwrap_err();
        assert!(matches!(&error, SseError::Data { event, .. } if event == "done"), "{error:?}");
    }
}
