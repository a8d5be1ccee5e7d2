//! Bytes both ways, once client and server have switched to another protocol.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split};

/// Passes bytes on until either side ends: half of a `WebSocket` is of no use.
pub(super) async fn relay(
    client: impl AsyncRead + AsyncWrite,
    server: impl AsyncRead + AsyncWrite,
) -> io::Result<()> {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = split(server);
    tokio::select! {
        copied = copy(&mut from_server, &mut to_client) => {
            copied?;
            to_client.shutdown().await
        }
        copied = copy(&mut from_client, &mut to_server) => {
            copied?;
            to_server.shutdown().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, duplex};

    #[tokio::test]
    async fn either_end_ends_both_after_what_was_sent() {
        for is_client in [true, false] {
            let ((client, near), (server, far)) = (duplex(64), duplex(64));
            let relaying = tokio::spawn(relay(near, far));
            let (mut ends, mut stays) = if is_client { (client, server) } else { (server, client) };
            let mut byte = [0; 1];
            stays.write_all(b"a").await.unwrap();
            ends.read_exact(&mut byte).await.unwrap();
            ends.write_all(b"b").await.unwrap();
            drop(ends);
            let mut rest = Vec::new();
            stays.read_to_end(&mut rest).await.unwrap();
            assert_eq!((&byte, rest.as_slice()), (b"a", &b"b"[..]));
            relaying.await.unwrap().unwrap();
        }
    }
}
