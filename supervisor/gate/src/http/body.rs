//! Bodies of requests: exactly as long as the head says. Chunks are read and written anew, so that the
//! destination sees the end where the gate saw it (RFC 9112, 7.1).

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use vivarium_egress::Reason;

use super::head::Framing;
use crate::buffered::Buffered;
use crate::flow::Flow;
use crate::relay::{self, Way};

/// The longest line between chunks, and the most lines after the last.
const MAX_LINE: usize = 4 << 10;
const MAX_TRAILERS: usize = 32;

/// Sends a body on. A body that is cut short or malformed is an error: the destination gets no end of it.
pub(crate) async fn send<R: AsyncRead + Unpin>(
    client: &mut Buffered<R>,
    to: &mut (impl AsyncWrite + Unpin),
    framing: Framing,
    flow: &Flow,
) -> Result<(), Reason> {
    let mut left = match framing {
        Framing::None => return Ok(()),
        Framing::Length(len) => {
            let missing = relay::copy(client, to, len, Way::Out, flow).await?;
            return if missing == 0 { Ok(()) } else { Err(Reason::BadRequest) };
        }
        Framing::Chunked => MAX_TRAILERS,
    };
    loop {
        let size = chunk_size(&line(client).await?).ok_or(Reason::BadRequest)?;
        if size == 0 {
            break;
        }
        write(to, format!("{size:x}\r\n").as_bytes(), flow).await?;
        if relay::copy(client, to, size, Way::Out, flow).await? > 0
            || !line(client).await?.is_empty()
        {
            return Err(Reason::BadRequest);
        }
        write(to, b"\r\n", flow).await?;
    }
    // Trailers are not passed on.
    while !line(client).await?.is_empty() {
        left = left.checked_sub(1).ok_or(Reason::BadRequest)?;
    }
    write(to, b"0\r\n\r\n", flow).await
}

async fn write(
    to: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    flow: &Flow,
) -> Result<(), Reason> {
    flow.count_out(bytes.len()).await?;
    to.write_all(bytes).await.map_err(|_| Reason::Unreachable)?;
    to.flush().await.map_err(|_| Reason::Unreachable)
}

/// The next line, without its CR LF.
async fn line<R: AsyncRead + Unpin>(client: &mut Buffered<R>) -> Result<Vec<u8>, Reason> {
    loop {
        if let Some(end) = memchr::memchr(b'\n', client.bytes()) {
            let mut line = client.consume(end + 1);
            let is_whole = line.ends_with(b"\r\n");
            line.truncate(line.len().saturating_sub(2));
            let is_plain = is_whole && !line.iter().any(|byte| matches!(byte, b'\r' | 0));
            return if is_plain { Ok(line) } else { Err(Reason::BadRequest) };
        }
        let is_more = client.bytes().len() < MAX_LINE && client.fill().await.unwrap_or(false);
        if !is_more {
            return Err(Reason::BadRequest);
        }
    }
}

/// The size that begins a chunk's line. An extension is not passed on.
pub(crate) fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next()?;
    let digits = std::str::from_utf8(digits).ok()?;
    let is_hex = (1..=15).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_digits_alone() {
        for (line, size) in [
            (&b"0"[..], Some(0)),
            (b"1aF", Some(0x1af)),
            (b"5;x=y", Some(5)),
            (b"", None),
            (b"+5", None),
            (b"-1", None),
            (b"0x5", None),
            (b" 5", None),
            (b"5 ", None),
            (b"5g", None),
            (b"10000000000000000", None),
        ] {
            assert_eq!(chunk_size(line), size, "{line:?}");
        }
    }
}
