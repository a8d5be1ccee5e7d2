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
    while len > 0 {
        let most = usize::try_from(len).unwrap_or(usize::MAX).min(buffer.len());
        let Some(room) = buffer.get_mut(..most) else { break };
        let Ok(read @ 1..) = from.read(room).await else { break };
        match way {
            Way::In => flow.count_in(read)?,
            Way::Out => flow.count_out(read)?,
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            break;
        }
        len = len.saturating_sub(read as u64);
        if read == buffer.len() && read < LAST_BUFFER {
            buffer.resize(read * 2, 0);
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
