//! What is shown has its place among what is printed, whoever prints it and however much.

use std::thread;

use serde_json::json;
use vivarium_tests::events::{Event, Events};
use vivarium_tests::{Daemon, Session, Setup};

/// Prints and shows by turns: by Python, by C and by children that have ended, to stdout and
/// stderr, and now and then more than a pipe holds.
const TURNS: &str = "
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
LARGE = 'x' * 200_000
for i in range(60):
    print('python', i)
    display(f'a{i}')
    print('error', i, file=sys.stderr)
    display(f'b{i}')
    libc.printf(b'c %d\\n', i); libc.fflush(None)
    display(f'c{i}')
    done = subprocess.run(['sh', '-c', f'echo child {i}; echo its error {i} >&2'])
    display(f'd{i}')
    if i % 10 == 0:
        print(LARGE)
        display(f'e{i}')
    print('not flushed', i, end=' ')
'end'";

/// What [`TURNS`] does, in its order: a stream's text, or `display` and what is shown.
fn turns() -> Vec<(&'static str, String)> {
    let mut turns = Vec::new();
    for i in 0..60 {
        turns.push(("stdout", format!("python {i}\n")));
        turns.push(("display", format!("'a{i}'")));
        turns.push(("stderr", format!("error {i}\n")));
        turns.push(("display", format!("'b{i}'")));
        turns.push(("stdout", format!("c {i}\n")));
        turns.push(("display", format!("'c{i}'")));
        turns.push(("stdout", format!("child {i}\n")));
        turns.push(("stderr", format!("its error {i}\n")));
        turns.push(("display", format!("'d{i}'")));
        if i % 10 == 0 {
            turns.push(("stdout", format!("{}\n", "x".repeat(200_000))));
            turns.push(("display", format!("'e{i}'")));
        }
        turns.push(("stdout", format!("not flushed {i} ")));
    }
    turns
}

/// Between two displays (and up to the first, and from the last to the result), in order: what
/// came on stdout, on stderr, and what the display showed.
fn parts<'a>(all: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<[String; 3]> {
    let mut parts = vec![<[String; 3]>::default()];
    for (name, text) in all {
        let last = parts.last_mut().unwrap();
        match name {
            "stdout" => last[0].push_str(text),
            "stderr" => last[1].push_str(text),
            _ => {
                text.clone_into(&mut last[2]);
                parts.push(<[String; 3]>::default());
            }
        }
    }
    parts
}

/// An event as [`parts`] takes it; nothing of one that is neither printed nor shown.
fn told(event: &Event) -> Option<(&str, &str)> {
    let text = match event.name.as_str() {
        "stdout" | "stderr" => &event.data["text"],
        "display" => &event.data["mime"]["text/plain"],
        "result" => &event.data["repr"],
        "started" | "done" => return None,
        other => panic!("{other}"),
    };
    Some((&event.name, text.as_str().unwrap()))
}

/// The first part that is not as it should be: each display comes behind all that was printed
/// before it, and before all that was printed behind it.
fn misplaced(events: &[Event]) -> Option<String> {
    let mut right = turns();
    right.push(("result", "'end'".to_owned()));
    let right = parts(right.iter().map(|(name, text)| (*name, text.as_str())));
    let found = parts(events.iter().filter_map(told));
    let short =
        |part: Option<&[String; 3]>| format!("{part:?}").chars().take(200).collect::<String>();
    let differs = |at: &usize| found.get(*at) != right.get(*at);
    let wrong = (0..right.len().max(found.len())).find(differs)?;
    Some(format!("{wrong}: {}, and not {}", short(found.get(wrong)), short(right.get(wrong))))
}

#[track_caller]
fn check(events: &[Event]) {
    assert_eq!(misplaced(events), None);
    let numbers: Vec<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>());
    assert_eq!(events.last().unwrap().data["status"], "ok");
}

/// More than a megabyte of events is to be compared.
fn setup() -> Setup {
    Setup::default().config("session", "event_buffer_bytes = 16777216\nexec_timeout = \"5m\"")
}

#[test]
fn displays_are_in_their_places_while_it_runs_and_afterwards() {
    let daemon = setup().start();
    let session = daemon.session();
    let live = session.stream(TURNS).rest();
    check(&live);
    assert_eq!(session.follow("1", None).rest(), live);
    // The control: one display that has changed places with what is printed beside it is noticed.
    let is_print = |event: &Event| event.name.starts_with("std");
    let place = live.windows(2).position(|two| is_print(&two[0]) && two[1].name == "display");
    let mut wrong = live.clone();
    wrong.swap(place.unwrap(), place.unwrap() + 1);
    assert!(misplaced(&wrong).is_some());
    daemon.stop_and_check();
}

/// Prints on both streams from three processes at once, as fast as it can, until there is a file.
const FLOOD: &str = "
import os, time
for n in range(3):
    if os.fork() == 0:
        while True: os.write(1 + n % 2, b'y' * 65536)
while not os.path.exists('stop'): time.sleep(0.01)";

fn flood<'d>(daemon: &'d Daemon, streams: &mut Vec<Events>) -> Session<'d> {
    let session = daemon.session();
    let mut events =
        session.stream_with("/execute", &[], &json!({"code": FLOOD, "timeout_ms": 1_000_000}));
    events.expect("started");
    streams.push(events);
    session
}

#[test]
fn displays_are_in_their_places_while_other_sessions_flood() {
    let daemon = setup().config("sandbox", "max_output_bytes = \"unlimited\"").start();
    // One is read all the time, the other by nobody.
    let mut streams = Vec::new();
    let floods = [flood(&daemon, &mut streams), flood(&daemon, &mut streams)];
    let mut read = streams.remove(0);
    let sessions: Vec<_> = (0..3).map(|_| daemon.session()).collect();
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut bytes = 0;
            while let Some(event) = read.next_event() {
                bytes += event.data["text"].as_str().map_or(0, str::len);
            }
            bytes
        });
        let follow = |session: &Session<'_>| check(&session.stream(TURNS).rest());
        let followers: Vec<_> =
            sessions.iter().map(|session| scope.spawn(move || follow(session))).collect();
        let ends: Vec<_> = followers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // The others ran meanwhile: this would have been another test.
        for session in &floods {
            assert_eq!(session.info()["state"], "running");
            assert_eq!(session.request("DELETE", "", None).status, 204);
        }
        assert!(reader.join().unwrap() > 1 << 20);
        for end in ends {
            end.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    drop(streams);
    daemon.stop_and_check();
}
