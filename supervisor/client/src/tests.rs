//! The client against a server of a few lines, which counts its connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;

use super::*;

struct Server {
    url: Url,
    connections: Arc<AtomicUsize>,
}

/// Answers each request of each connection with `status` and `body`; `requests` per connection.
fn server(status: &'static str, body: &'static str, requests: usize) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            for _ in 0..requests {
                let mut length = 0;
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap_or(0) > 2 {
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                reader.read_exact(&mut vec![0; length]).unwrap();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
                if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    Server { url, connections }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn one_connection_serves_many_requests() {
    let server = server("200 OK", "{\"a\": 1}", usize::MAX);
    let mut client = Client::new(server.url.clone());
    block_on(async {
        for _ in 0..3 {
            let body = serde_json::json!({"code": "1+1"});
            let answer: serde_json::Value =
                client.json(Method::POST, "/v1/run", Some(&body)).await.unwrap();
            assert_eq!(answer["a"], 1);
        }
    });
    assert_eq!(server.connections.load(Ordering::Relaxed), 1);
}

#[test]
fn a_closed_connection_is_replaced() {
    let server = server("200 OK", "null", 1);
    let mut client = Client::new(server.url.clone());
    block_on(async {
        client.send(Method::GET, "/", vec![]).await.unwrap();
        // The end of the connection is an event of the runtime: let it be seen.
        while client.sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            tokio::task::yield_now().await;
        }
        client.send(Method::GET, "/", vec![]).await.unwrap();
    });
    assert_eq!(server.connections.load(Ordering::Relaxed), 2);
}

#[test]
fn a_problem_is_reported_with_its_detail_status_and_code() {
    let problem = "{\"type\": \"x\", \"title\": \"No\", \"status\": 404, \
                   \"code\": \"unknown_session\", \"detail\": \"there is no session\"}";
    let server = server("404 Not Found", problem, 1);
    let mut client = Client::new(server.url);
    let answer = block_on(client.json::<()>(Method::GET, "/", None::<&()>));
    let error = answer.unwrap_err();
    assert_eq!(error.to_string(), "there is no session (404 Not Found, unknown_session)");
}

#[test]
fn a_body_that_is_not_json_is_an_error() {
    for status in ["200 OK", "500 Oops"] {
        let server = server(status, "<html>", 1);
        let mut client = Client::new(server.url);
        let answer = block_on(client.json::<()>(Method::GET, "/", None::<&()>));
        assert!(matches!(answer, Err(ClientError::Malformed { .. })), "{answer:?}");
    }
}

#[test]
fn a_token_is_sent_and_never_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let asked = std::thread::spawn(move || {
        let mut reader = BufReader::new(listener.accept().unwrap().0);
        let mut head = String::new();
        while reader.read_line(&mut head).unwrap() > 2 {}
        reader.get_mut().write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        head
    });
    let with = |token: &str| {
        Client::new(Remote { url: url.clone(), token: Some(Token::new(token.into())) })
    };
    let mut client = with("viv_abc");
    assert!(!format!("{client:?}").contains("viv_abc"));
    block_on(client.send(Method::GET, "/", vec![])).unwrap();
    let head = asked.join().unwrap();
    assert!(head.to_lowercase().contains("authorization: bearer viv_abc\r\n"), "{head}");
    let error = block_on(with("sec\nret").send(Method::GET, "/", vec![])).unwrap_err();
    assert!(error.to_string().contains("characters that no token has"), "{error}");
    assert!(!error.to_string().contains("ret"), "{error}");
}

#[test]
fn a_failed_connection_is_reported_with_the_url() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url: Url = format!("http://{free}").parse().unwrap();
    let answer = block_on(Client::new(url.clone()).send(Method::GET, "/", vec![]));
    assert_eq!(answer.unwrap_err().to_string(), format!("cannot connect to {url}"));
}
