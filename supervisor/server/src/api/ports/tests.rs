use std::time::Duration;

use axum::http::uri::PathAndQuery;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep};

use super::*;

fn front() -> Front {
    Front::new(80, "/p".to_owned(), PathAndQuery::from_static("/"))
}

/// A request to a server that does this once some of the request is there.
async fn asked<F: Future<Output = ()> + Send + 'static>(
    body: Body,
    serve: impl FnOnce(DuplexStream) -> F + Send + 'static,
) -> Result<Response, Problem> {
    let (near, mut far) = duplex(1 << 10);
    tokio::spawn(async move {
        far.read_exact(&mut [0; 50]).await.unwrap();
        serve(far).await;
    });
    let request = Request::builder().method("POST").uri("/p/").body(body).unwrap();
    forward(near, request, &front(), "t").await
}

#[tokio::test(start_paused = true)]
async fn slow_head_is_given_up_however_slowly_it_goes_on() {
    let start = Instant::now();
    let refused = asked(Body::empty(), |mut far| async move {
        far.write_all(b"HTTP/1.1 200 OK\r\nA: ").await.unwrap();
        while far.write_all(b"x").await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    });
    let problem = refused.await.unwrap_err();
    assert_eq!((problem.status, problem.code), (504, "port_timed_out"));
    assert_eq!(start.elapsed(), HEAD_WITHIN);
}

#[tokio::test]
async fn server_may_answer_and_leave_before_it_has_the_body() {
    let body = Body::from(vec![b'x'; 1 << 20]);
    let answered = asked(body, |mut far| async move {
        far.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno").await.unwrap();
    });
    let answered = answered.await.unwrap();
    assert_eq!(answered.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answered.into_body().collect().await.unwrap().to_bytes(), "no");
}

/// Whoever no longer reads an answer ends its connection, also in the middle of the request.
#[tokio::test]
async fn dropped_answer_closes_the_connection() {
    let (closed, until_closed) = tokio::sync::oneshot::channel();
    let answered = asked(Body::new(Endless), |mut far| async move {
        far.write_all(b"HTTP/1.1 200 OK\r\n\r\nbegun").await.unwrap();
        let mut bytes = vec![0; 1 << 10];
        while far.read(&mut bytes).await.is_ok_and(|len| len > 0) {}
        closed.send(()).unwrap();
    });
    drop(answered.await.unwrap());
    until_closed.await.unwrap();
}

struct Endless;

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1 << 10])))))
    }
}
