//! Receiving messages from the processes that the daemon starts.

use std::io;
use std::os::fd::OwnedFd;

use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::net::UnixStream;
use vivarium_protocol::frame::{Decoder, FrameError};
use vivarium_protocol::stream::recv_some;

/// Its next message; `None` at the end of its socket. Safe to cancel: what was read of a message is
/// in `decoder`.
///
/// # Errors
/// If the socket fails, or what comes is no message.
pub(crate) async fn recv<T, E>(
    stream: &mut UnixStream,
    decoder: &mut Decoder,
) -> Result<Option<T>, E>
where
    T: DeserializeOwned,
    E: From<io::Error> + From<FrameError>,
{
    recv_with(stream, decoder, &mut Vec::new()).await
}

/// The same, with the descriptors that come alongside. Safe to cancel too: those are in `alongside`.
///
/// # Errors
/// As of [`recv`].
pub(crate) async fn recv_with<T, E>(
    stream: &mut UnixStream,
    decoder: &mut Decoder,
    alongside: &mut Vec<OwnedFd>,
) -> Result<Option<T>, E>
where
    T: DeserializeOwned,
    E: From<io::Error> + From<FrameError>,
{
    loop {
        if let Some(message) = decoder.next_message()? {
            return Ok(Some(message));
        }
        let mut buffer = [0; 4096];
        let received = stream.async_io(Interest::READABLE, || recv_some(&*stream, &mut buffer));
        let (count, descriptors) = received.await?;
        if count == 0 {
            return Ok(None);
        }
        alongside.extend(descriptors);
        decoder.push(buffer.get(..count).unwrap_or_default());
    }
}
