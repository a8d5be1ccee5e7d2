//! MCP over standard input and output: one line of JSON for each message, both ways.

use std::collections::BTreeMap;
use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use vivarium_protocol::discard;

use super::progress::Progress;
use super::rpc::{self, Error, Id, Message, Request, TOO_MANY_REQUESTS};
use super::{Answer, answer, revision};
use crate::dialects::native::Native;

/// The longest line that is read, in bytes: what a daemon takes by default, and the rest of a message.
const MAX_LINE_BYTES: u64 = 65 << 20;

/// Requests that are being answered at a time.
const MAX_REQUESTS: usize = 64;

/// Messages that wait for the reader.
const QUEUE: usize = 16;

/// Answers until the input ends, and what was asked until then.
///
/// # Errors
/// If input or output fail.
pub async fn serve<N, R, W>(native: N, input: R, output: W) -> io::Result<()>
where
    N: Native,
    R: AsyncBufRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (to, from) = mpsc::channel(QUEUE);
    let reading = read(native, input, to);
    tokio::try_join!(reading, write(from, output))?;
    Ok(())
}

async fn write(
    mut from: mpsc::Receiver<Value>,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(message) = from.recv().await {
        // Compact JSON contains no line ends.
        let mut line = message.to_string().into_bytes();
        line.push(b'\n');
        output.write_all(&line).await?;
        output.flush().await?;
    }
    Ok(())
}

/// What is being answered.
struct Pending {
    tasks: JoinSet<Option<Id>>,
    by_id: BTreeMap<Id, AbortHandle>,
}

async fn read<N: Native>(
    native: N,
    mut input: impl AsyncBufRead + Unpin,
    to: mpsc::Sender<Value>,
) -> io::Result<()> {
    let mut pending = Pending { tasks: JoinSet::new(), by_id: BTreeMap::new() };
    let mut line = Vec::new();
    loop {
        // Kept over a round in which only an answer was finished.
        let mut limited = (&mut input).take(MAX_LINE_BYTES.saturating_sub(line.len() as u64));
        tokio::select! {
            Some(ended) = pending.tasks.join_next(), if !pending.tasks.is_empty() => {
                if let Ok(Some(id)) = ended {
                    pending.by_id.remove(&id);
                }
                continue;
            }
            read = limited.read_until(b'\n', &mut line) => read?,
        };
        if !line.ends_with(b"\n") && line.len() as u64 >= MAX_LINE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
        }
        if line.is_empty() {
            break;
        }
        if !line.trim_ascii().is_empty() {
            take(&native, &line, &to, &mut pending).await;
        }
        line.clear();
    }
    while pending.tasks.join_next().await.is_some() {}
    Ok(())
}

/// Acts on one message.
async fn take<N: Native>(native: &N, line: &[u8], to: &mpsc::Sender<Value>, pending: &mut Pending) {
    let refused = match rpc::parse(line) {
        Ok(Message::Request(request)) if pending.tasks.len() < MAX_REQUESTS => {
            let (id, key) = (request.id.clone(), request.id.clone());
            let (native, to) = (native.clone(), to.clone());
            let task = pending.tasks.spawn(async move {
                respond(&native, &request, to).await;
                id
            });
            if let Some(key) = key {
                pending.by_id.insert(key, task);
            }
            return;
        }
        Ok(Message::Request(request)) => {
            let why = format!("{MAX_REQUESTS} requests are being answered: wait for one of them");
            Error::new(TOO_MANY_REQUESTS, why).message(request.id.as_ref())
        }
        Ok(Message::Notification(request)) => {
            cancel(&request, pending);
            return;
        }
        Ok(Message::Response) => return,
        Err((id, error)) => error.message(id.as_ref()),
    };
    send(to, refused).await;
}

/// Ends what a client no longer waits for. There is no answer then.
fn cancel(notification: &Request, pending: &mut Pending) {
    let id = super::cancelled(notification);
    if let Some(task) = id.and_then(|id| pending.by_id.remove(&id)) {
        task.abort();
    }
}

async fn respond<N: Native>(native: &N, request: &Request, to: mpsc::Sender<Value>) {
    let progress = Progress::wanted(request, &to);
    let id = request.id.as_ref();
    let answered = match revision::of(request, None) {
        Ok(era) => answer(native, era, request, progress.as_ref()).await,
        Err(error) => Err(error),
    };
    match answered {
        Ok(Answer { result, room }) => {
            send(&to, rpc::result(id, result)).await;
            drop(room);
        }
        Err(error) => send(&to, error.message(id)).await,
    }
}

async fn send(to: &mpsc::Sender<Value>, message: Value) {
    discard(
        to.send(message).await,
        "a reader that is gone needs no answer: writing to it has failed",
    );
}
