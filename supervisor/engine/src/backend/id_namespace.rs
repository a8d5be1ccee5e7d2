//! The user namespace that holds the daemon's whole range of subordinate ids, made once by
//! `vivarium-agent range`. It lives as long as somebody holds it open.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::{Decoder, FrameError, MAX_SMALL_FRAME_BYTES, encode};
use vivarium_protocol::message::{CreateIdNamespace, Failure, FromIdNamespace};

use super::{Backend, LaunchError, Launched};
use crate::recv::recv;

/// How long it may take: two small programs.
const WITHIN: Duration = Duration::from_secs(20);

/// Why there are no subordinate ids although they are granted.
#[derive(Debug, thiserror::Error)]
pub enum IdNamespaceError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("{0}")]
    Failed(Failure),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("open the namespace")]
    Io(#[from] std::io::Error),
    #[error("its answer")]
    Frame(#[from] FrameError),
}

/// Makes it; `None` if this backend has no such thing.
pub async fn make(
    backend: &dyn Backend,
    ranges: &[(u32, u32)],
) -> Result<Option<OwnedFd>, IdNamespaceError> {
    let Some(mut launched) = backend.id_namespace()? else { return Ok(None) };
    let made = timeout(WITHIN, ask(&mut launched, ranges)).await;
    backend.kill(launched).await;
    made.unwrap_or(Err(IdNamespaceError::TimedOut(WITHIN))).map(Some)
}

async fn ask(launched: &mut Launched, ranges: &[(u32, u32)]) -> Result<OwnedFd, IdNamespaceError> {
    let closed = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let stream = launched.stream.as_mut().ok_or_else(closed)?;
    let order = CreateIdNamespace { protocol_version: PROTOCOL_VERSION, ranges: ranges.to_vec() };
    stream.write_all(&encode(&order, MAX_SMALL_FRAME_BYTES)?).await?;
    let mut decoder = Decoder::new(MAX_SMALL_FRAME_BYTES);
    match recv::<_, IdNamespaceError>(stream, &mut decoder).await? {
        // The process is there, and its number its own, until the socket is closed.
        Some(FromIdNamespace::Created { pid }) => {
            Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
        }
        Some(FromIdNamespace::Failed(failure)) => Err(IdNamespaceError::Failed(failure)),
        None => Err(closed().into()),
    }
}
