//! Bytes from one side to the other, both ways, counted, until one of them has enough or is quiet for
//! too long.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::sleep_until;
use vivarium_egress::Reason;
use vivarium_protocol::discard;

use crate::buffered::Buffered;
use crate::flow::Flow;

/// Buffers begin small, as slow connections may be many, and grow where reads fill them.
const FIRST_BUFFER: usize = 8 << 10;
const LAST_BUFFER: usize = 256 << 10;

/// After so many bytes others get their turn: there is one thread for all sessions.
const TURN_BYTES: usize = 512 << 10;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// To the session.
    In,
    /// To the destination.
    Out,
}

/// Copies until the end of `from`, or `len` bytes. An error of either side is an end too. The inner
/// answer is how many bytes of `len` are missing.
pub(crate) async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut len: u64,
    way: Way,
    flow: &Flow,
) -> Result<u64, Reason> {
    let mut buffer = vec![0; FIRST_BUFFER];
    let mut turn = 0;
    while len > 0 {
        let most = usize::try_from(len).unwrap_or(usize::MAX).min(buffer.len());
        let Some(room) = buffer.get_mut(..most) else { break };
        let Ok(read @ 1..) = from.read(room).await else { break };
        match way {
            Way::In => flow.count_in(read).await?,
            Way::Out => flow.count_out(read).await?,
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
        len = len.saturating_sub(read as u64);
        if read == buffer.len() && read < LAST_BUFFER {
            buffer.resize(read * 2, 0);
        }
        turn += read;
        if turn >= TURN_BYTES {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
    Ok(len)
}

/// Copies both ways. Returns what cut it, if that was the gate.
pub(crate) async fn both<C, D>(
    client: Buffered<C>,
    destination: D,
    flow: &Flow,
    idle: Duration,
) -> Option<Reason>
where
    C: AsyncRead + AsyncWrite + Unpin,
    D: AsyncRead + AsyncWrite + Unpin,
{
    let (mut client_read, mut client_write) = client.split();
    let (mut read, mut write) = tokio::io::split(destination);
    let out = async {
        copy(&mut client_read, &mut write, u64::MAX, Way::Out, flow).await?;
        discard(write.shutdown().await, "the destination may be gone");
        Ok::<_, Reason>(())
    };
    let back = async {
        copy(&mut read, &mut client_write, u64::MAX, Way::In, flow).await?;
        discard(client_write.shutdown().await, "the session may be gone");
        Ok::<_, Reason>(())
    };
    tokio::select! {
        ended = async { tokio::try_join!(out, back) } => ended.err(),
        () = quiet(flow, idle) => Some(Reason::Timeout),
    }
}

/// Returns once no byte went either way for so long.
pub(crate) async fn quiet(flow: &Flow, idle: Duration) {
    loop {
        let until = flow.last_byte() + idle;
        if until.elapsed() > Duration::ZERO {
            return;
        }
        sleep_until(until).await;
        // The clock of timers counts in milliseconds.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    use tokio::io::ReadBuf;
    use tokio::net::UnixStream;

    use super::*;
    use crate::flow::Reporter;
    use crate::tenant::Tenant;

    /// Always has bytes and takes bytes, without a turn for others in between.
    struct Ready;

    impl AsyncRead for Ready {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            let len = buffer.remaining();
            buffer.initialize_unfilled();
            buffer.advance(len);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Ready {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_copy_that_never_waits_lets_others_have_their_turn() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let reporter = Reporter::start(ours.into_split().1);
        let together = (Arc::default(), Arc::new(Tenant::new("team")));
        let flow = Arc::new(Flow::new(reporter, (1, 1), together, None));
        let len = 16 * TURN_BYTES as u64;
        let copying = tokio::spawn({
            let flow = flow.clone();
            async move { copy(&mut Ready, &mut Ready, len, Way::In, &flow).await }
        });
        let mut turns = 0;
        while !copying.is_finished() {
            turns += 1;
            tokio::task::yield_now().await;
        }
        assert_eq!(copying.await.unwrap(), Ok(0));
        assert!(turns >= 8, "{turns}");
    }
}
