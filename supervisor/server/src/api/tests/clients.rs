//! Clients that are silent, slow, many, or odd.

use super::*;

const PART: &[u8] =
    b"POST /v1/run HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                      content-length: 1000\r\n\r\n{";

#[tokio::test]
async fn silent_connections_make_room_for_others() {
    let mut settings = settings();
    settings.server.max_connections = 8;
    let server = start(settings);
    let mut silent = Vec::new();
    for number in 0..40 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let begun: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /v1/host HT",
            _ => PART,
        };
        stream.write_all(begun).await.unwrap_or(());
        silent.push(stream);
    }
    assert_eq!(server.call("POST", "/v1/run", r#"{"code": "hi"}"#).await.status, 200);
    assert_eq!(server.call("GET", "/healthz", "").await.status, 200);
    let metrics = server.call("GET", "/metrics", "").await;
    assert!(metrics.body.contains(r#"connections_closed_total{reason="crowded"}"#));
}

#[tokio::test(start_paused = true)]
async fn body_that_trickles_times_out() {
    let server = start(settings());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(PART).await.unwrap();
    let (mut reading, mut writing) = stream.split();
    let trickle = async {
        loop {
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            if writing.write_all(b" ").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut head = [0; 12];
    let answer = tokio::select! {
        read = reading.read_exact(&mut head) => read,
        () = trickle => unreachable!(),
    };
    answer.unwrap();
    assert_eq!(&head, b"HTTP/1.1 408");
}

#[tokio::test(start_paused = true)]
async fn unfinished_request_does_not_delay_the_servers_stop() {
    let server = start(settings());
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(PART).await.unwrap();
    server.call("GET", "/healthz", "").await;
    server.stop.send(()).unwrap();
    let trickle = async {
        while stream.write_all(b" ").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    let (ended, ()) = tokio::join!(server.task, trickle);
    ended.unwrap().unwrap();
}

#[tokio::test]
async fn health_checks_need_no_host() {
    let server = start(settings());
    for path in ["/healthz", "/readyz"] {
        for version in ["1.0", "1.1"] {
            let request = format!("GET {path} HTTP/{version}\r\nconnection: close\r\n\r\n");
            assert_eq!(raw(server.address, request.as_bytes()).await.status, 200, "{request}");
        }
    }
    let elsewhere = b"GET /v1/host HTTP/1.0\r\n\r\n";
    assert_eq!(raw(server.address, elsewhere).await.problem(), (400, "bad_host".into()));
    let absolute = b"GET http://evil.example/v1/host HTTP/1.1\r\nhost: localhost\r\n\
                     connection: close\r\n\r\n";
    assert_eq!(raw(server.address, absolute).await.problem(), (403, "host_not_allowed".into()));
}
