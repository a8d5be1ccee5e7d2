//! The package index that sessions find at [`HOST`]: requests of theirs, answered here.
//!
//! The name leads nowhere else, whatever an allow-list says. A tunnel to it is refused: the index is
//! served to plain requests through the proxy.

mod upstream;

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use vivarium_egress::allow::HTTP_PORT;
use vivarium_egress::{Decision, Host, Reason};
use vivarium_packages::{Answer, Cache, Content, HOST};
use vivarium_protocol::discard;

use crate::Options;
use crate::buffered::Buffered;
use crate::context::Context;
use crate::flow::Asked;
use crate::http::{self, head::Framing, head::Head};
use upstream::Upstream;

/// The most time for one answer: a large file from a slow index.
const ANSWER_WITHIN: Duration = Duration::from_secs(1800);

/// How long another gate that has the cache may take to end: one that was killed is replaced at once.
const LOCKED_FOR: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(20);

const PIECE_BYTES: usize = 256 << 10;

#[expect(
    clippy::disallowed_methods,
    reason = "a lock of a file cannot be waited for within a time"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Opens the cache. `Err` is why there is none although there was to be one.
pub(crate) fn open_cache(options: &Options) -> Result<Option<Cache>, String> {
    let Some(dir) = &options.cache_dir else { return Ok(None) };
    let failed = |error: &dyn std::fmt::Display| {
        format!("no cache for packages, so none come from an index: {}: {error}", dir.display())
    };
    fs::create_dir_all(dir).map_err(|error| failed(&error))?;
    let mut waited = Duration::ZERO;
    loop {
        match Cache::open(dir, options.max_cache_mb.saturating_mul(1 << 20)) {
            Ok(cache) => return Ok(Some(cache)),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(failed(&error)),
            Err(_) if waited >= LOCKED_FOR => return Err(failed(&"another gate uses it")),
            Err(_) => {
                pause(STEP);
                waited += STEP;
            }
        }
    }
}

/// What of the directories of wheels can not be listed, a line each.
pub(crate) fn unreadable(directories: &[PathBuf]) -> impl Iterator<Item = String> {
    directories.iter().filter_map(|directory| {
        let error = fs::read_dir(directory).err()?;
        Some(format!("no packages from {}: {error}", directory.display()))
    })
}

/// Whether a host is the index.
pub(crate) fn is_index(host: &Host) -> bool {
    matches!(host, Host::Name(name) if name.as_str() == HOST)
}

/// Why a request for the index is refused.
pub(crate) fn check(
    context: &Context,
    asked: &Asked,
    host: &Host,
    head: Option<&Head>,
) -> Result<(), Reason> {
    if context.rules.packages.is_none() {
        return Err(Reason::NotListed);
    }
    if asked.port != HTTP_PORT {
        return Err(Reason::PortNotListed);
    }
    let head = head.ok_or(Reason::BadRequest)?;
    if !matches!(head.method.as_str(), "GET" | "HEAD") {
        return Err(Reason::MethodNotListed);
    }
    let is_whole =
        head.framing == Framing::None && head.check_host(host, HTTP_PORT, HTTP_PORT).is_ok();
    if is_whole { Ok(()) } else { Err(Reason::BadRequest) }
}

/// Answers a request that [`check`] let pass. Returns what cut it, if that was the gate.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    context: &Context,
    mut client: Buffered<S>,
    asked: &Asked,
    (head, path): &(Head, String),
) -> Option<Reason> {
    let source = context.rules.packages.as_ref()?;
    context.flow.decide(asked, Decision::Allowed, Reason::Packages).await;
    let upstream = Upstream::new(context, source);
    let accept = head.header("accept").unwrap_or_default();
    let index = &context.shared.index;
    let answering = index.answer(&context.tenant.name, source, path, accept, &upstream);
    let Ok(answer) = timeout(ANSWER_WITHIN, answering).await else {
        http::refuse(&mut client, Reason::Timeout, "the index took too long").await;
        return Some(Reason::Timeout);
    };
    // What came from upstream for this is counted already.
    let bytes = match &answer.content {
        Content::Text(text) => text.len() as u64,
        Content::File(stored) => stored.bytes,
    };
    let left = usize::try_from(bytes.saturating_sub(upstream.fetched())).unwrap_or(usize::MAX);
    if let Err(reason) = context.flow.count_in(left).await {
        http::refuse(&mut client, reason, "the session's bytes are used up").await;
        return Some(reason);
    }
    let idle = context.rules.limits.idle;
    match send(&mut client, answer, bytes, head.method == "HEAD", idle).await {
        Ok(()) => {
            discard(client.shutdown().await, "the session may be gone");
            None
        }
        Err(error) => (error.kind() == io::ErrorKind::TimedOut).then_some(Reason::Timeout),
    }
}

async fn send(
    client: &mut (impl AsyncWrite + Unpin),
    answer: Answer,
    bytes: u64,
    is_head: bool,
    idle: Duration,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n",
        answer.status,
        phrase(&answer),
        answer.content_type,
    );
    let mut write = async |bytes: &[u8]| timeout(idle, client.write_all(bytes)).await?;
    write(head.as_bytes()).await?;
    match answer.content {
        _ if is_head => Ok(()),
        Content::Text(text) => write(text.as_bytes()).await,
        Content::File(mut stored) => {
            let mut buffer = vec![0; PIECE_BYTES];
            let mut left = bytes;
            // No longer than was said, even if an operator's file grows meanwhile.
            while left > 0 {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                let room = buffer.get_mut(..most).unwrap_or_default();
                let read = stored.file.read(room)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                write(buffer.get(..read).unwrap_or_default()).await?;
                left = left.saturating_sub(read as u64);
            }
            Ok(())
        }
    }
}

/// The reason phrase, which is what pip and uv show: of an error, its text.
fn phrase(answer: &Answer) -> String {
    match &answer.content {
        Content::Text(text) if answer.status != 200 => {
            text.chars().filter(|c| *c == ' ' || c.is_ascii_graphic()).take(200).collect()
        }
        _ => "OK".to_owned(),
    }
}
