//! Following an execution on a server that breaks its connections wherever it is told to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::*;
use crate::Url;

/// The events of an execution that prints `a` and `b`.
const EVENTS: [&str; 5] = [
    "id: 1\nevent: started\ndata: {\"execution_id\":\"7\",\"session_id\":\"s\"}\n\n",
    "id: 2\nevent: stdout\ndata: {\"text\":\"a\"}\n\n",
    ": keep-alive\n\n",
    "id: 3\nevent: stderr\ndata: {\"text\":\"b\"}\n\n",
    "id: 4\nevent: done\ndata: {\"execution_id\":\"7\",\"session_id\":\"s\",\"status\":\"ok\",\
     \"cause\":null,\"detail\":\"\",\"exit_code\":null,\"kernel\":null,\"session_created\":false,\"files\":[],\"files_changed\":[],\
     \"files_changed_more\":false,\"state\":\"preserved\",\"stdout_truncated\":false,\
     \"stderr_truncated\":false,\"duration_ms\":1,\"usage\":{\"cpu_ms\":1,\
     \"memory_peak_bytes\":1}}\n\n",
];

/// A request as the server saw it: its line, and the headers that matter.
type Seen = Vec<(String, String, String)>;

/// Answers the n-th connection with the n-th of these, and closes it.
fn server(answers: Vec<String>) -> (Url, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for answer in answers {
            let stream = listener.accept().unwrap().0;
            let mut reader = BufReader::new(stream);
            let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
            let (mut key, mut last_id) = (String::new(), String::new());
            reader.read_line(&mut first).unwrap();
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some((name, value)) = line.trim().split_once(": ") {
                    match name.to_lowercase().as_str() {
                        "content-length" => length = value.parse().unwrap(),
                        "idempotency-key" => key = value.to_owned(),
                        "last-event-id" => last_id = value.to_owned(),
                        _ => {}
                    }
                }
                line.clear();
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            log.lock().unwrap().push((first.trim().to_owned(), key, last_id));
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, seen)
}

fn stream(events: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{events}")
}

fn json(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn follow(url: Url) -> Result<Vec<Event>, ClientError> {
    let path = "/v1/sessions/s/execute".to_owned();
    let mut execution = Execution::start(Client::new(url), path, b"{}".to_vec()).await?;
    let mut events = Vec::new();
    while let Some(event) = execution.next().await? {
        events.push(event);
    }
    Ok(events)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn assert_whole(events: &[Event]) {
    let [Event::Started(_), Event::Stdout(a), Event::Stderr(b), Event::Done(done)] = events else {
        panic!("{events:?}")
    };
    assert_eq!((a.as_str(), b.as_str(), &*done.execution_id), ("a", "b", "7"));
}

#[test]
fn an_execution_is_followed_to_its_end_wherever_the_connection_breaks() {
    let whole = EVENTS.concat();
    // At the beginning, in the middle and just before the end of every event.
    let mut start = 0;
    let mut cuts = Vec::new();
    for (before, event) in EVENTS.iter().enumerate() {
        let places = [0, event.len() / 2, event.len() - 1];
        cuts.extend(places.map(|place| (before, start + place)));
        start += event.len();
    }
    for (before, cut) in cuts {
        let ids = EVENTS[..before].iter().filter(|event| event.starts_with("id")).count();
        let rest = EVENTS[before..].concat();
        let (url, seen) = server(vec![stream(&whole[..cut]), stream(&rest)]);
        assert_whole(&block_on(follow(url)).unwrap());
        let seen = seen.lock().unwrap();
        let (line, key, last_id) = &seen[1];
        if ids == 0 {
            assert!(line.starts_with("POST /v1/sessions/s/execute "), "{cut}: {line}");
            assert_eq!((key, key.len()), (&seen[0].1, 36), "the same key: never run twice");
        } else {
            assert!(line.starts_with("GET /v1/sessions/s/executions/7 "), "{cut}: {line}");
            assert_eq!(last_id, &ids.to_string());
        }
    }
}

#[test]
fn dropped_events_are_reported_as_a_gap() {
    let (url, seen) = server(vec![
        stream(&EVENTS[..2].concat()),
        json("410 Gone", "{\"code\": \"events_gone\", \"detail\": \"the first kept is 4\"}"),
        stream(EVENTS[4]),
    ]);
    let events = block_on(follow(url)).unwrap();
    assert!(matches!(&events[2..], [Event::Gap, Event::Done(_)]), "{events:?}");
    let seen = seen.lock().unwrap();
    let last_ids: Vec<_> = seen.iter().map(|(_, _, last_id)| last_id.as_str()).collect();
    assert_eq!(last_ids, ["", "2", ""]);
}

#[test]
fn a_server_that_always_breaks_the_connection_is_given_up_on() {
    let (url, seen) = server(vec![stream(""); 1 + ATTEMPTS as usize]);
    let error = block_on(follow(url)).unwrap_err();
    assert!(matches!(error, ClientError::Broken { attempts: ATTEMPTS, .. }), "{error:?}");
    assert_eq!(seen.lock().unwrap().len(), 1 + ATTEMPTS as usize);
}

#[test]
fn a_refusal_is_not_retried() {
    let problem = "{\"code\": \"unknown_execution\", \"detail\": \"there is none\"}";
    let (url, _) = server(vec![stream(EVENTS[0]), json("404 Not Found", problem)]);
    let error = block_on(follow(url)).unwrap_err();
    assert_eq!(error.code(), Some("unknown_execution"));
    let (url, _) = server(vec![json("429 Too Many Requests", problem)]);
    assert!(matches!(block_on(follow(url)), Err(ClientError::Problem { .. })));
}

#[test]
fn a_malformed_event_is_an_error() {
    let (url, _) = server(vec![stream("id: 1\nevent: done\ndata: {}\n\n")]);
    assert!(matches!(block_on(follow(url)), Err(ClientError::Events { .. })));
}
