//! Requests that the gate reads itself: plain HTTP, and what is within TLS that ends here.
//!
//! One request for each connection, to the client and to the destination: what follows on a connection
//! is never taken for another request.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use vivarium_egress::Reason;
use vivarium_protocol::discard;

use crate::buffered::Buffered;
use crate::flow::Flow;
use crate::relay::{self, Way};

pub(crate) mod body;
pub(crate) mod head;

use head::{Framing, Head, HeadError};

/// Why there is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// The client went away.
    Gone,
    /// It is none that is passed on.
    Bad(HeadError),
}

/// Reads a request's head; what follows stays in the buffer.
pub(crate) async fn read_head<S: AsyncRead + Unpin>(
    client: &mut Buffered<S>,
) -> Result<Head, RequestError> {
    let mut checked = 0;
    loop {
        if let Some(end) = head::find_end(client.bytes(), checked).map_err(RequestError::Bad)? {
            return head::parse(&client.consume(end)).map_err(RequestError::Bad);
        }
        checked = client.bytes().len();
        if !client.fill().await.map_err(|_| RequestError::Gone)? {
            return Err(RequestError::Gone);
        }
    }
}

/// Sends a head and the client's body, and the answer back. Returns what cut it, if that was the gate.
pub(crate) async fn exchange<C, D>(
    client: Buffered<C>,
    destination: D,
    head: &[u8],
    framing: Framing,
    flow: &Flow,
    idle: std::time::Duration,
) -> Option<Reason>
where
    C: AsyncRead + AsyncWrite + Unpin,
    D: AsyncRead + AsyncWrite + Unpin,
{
    let (mut client_read, mut client_write) = client.split();
    let (mut read, mut write) = tokio::io::split(destination);
    let mut head = head;
    let request = async {
        let len = head.len() as u64;
        relay::copy(&mut head, &mut write, len, Way::Out, flow).await?;
        body::send(&mut client_read, &mut write, framing, flow).await?;
        // Not closed, which some servers take for a client that is gone. Nothing is read any more.
        std::future::pending::<Result<(), Reason>>().await
    };
    let answer = async {
        relay::copy(&mut read, &mut client_write, u64::MAX, Way::In, flow).await?;
        discard(client_write.shutdown().await, "the session may be gone");
        Ok::<_, Reason>(())
    };
    let cut = tokio::select! {
        ended = answer => ended.err(),
        Err(cut) = request => Some(cut),
        () = relay::quiet(flow, idle) => Some(Reason::Timeout),
    };
    drain(&mut client_read).await;
    cut
}

/// Answers a request that goes nowhere, and closes.
pub(crate) async fn refuse<S: AsyncRead + AsyncWrite + Unpin>(
    client: &mut Buffered<S>,
    reason: Reason,
    detail: &str,
) {
    let (status, phrase) = match reason {
        Reason::BadRequest => (400, "Bad Request"),
        Reason::Timeout => (408, "Request Timeout"),
        Reason::EgressRate => (429, "Too Many Requests"),
        Reason::Unresolved | Reason::Unreachable | Reason::Certificate => (502, "Bad Gateway"),
        _ => (403, "Forbidden"),
    };
    let code: &'static str = match reason {
        Reason::Address(class) => class.into(),
        other => other.into(),
    };
    let text = format!("vivarium egress gate: {detail} ({code})\n");
    // The code is in the status line too, as that is what clients show of a proxy's refusal.
    let answer = format!(
        "HTTP/1.1 {status} {phrase} by egress gate: {code}\r\nContent-Type: text/plain\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    if client.write_all(answer.as_bytes()).await.is_ok() {
        discard(client.shutdown().await, "the session may be gone");
        drain(client).await;
    }
}

/// Reads what is still coming for a moment: closing a socket with unread bytes resets it, and the
/// answer would be lost with them.
async fn drain(client: &mut (impl AsyncRead + Unpin)) {
    let reading = async {
        let mut buffer = vec![0; 4 << 10];
        for _ in 0..64 {
            if !matches!(client.read(&mut buffer).await, Ok(1..)) {
                return;
            }
        }
    };
    discard(timeout(std::time::Duration::from_millis(200), reading).await, "no more than a moment");
}
