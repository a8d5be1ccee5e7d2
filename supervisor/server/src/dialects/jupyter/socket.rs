//! The `WebSocket` of one client: its requests in, and what there is to tell it out.
//!
//! Neither way waits for the other: a client that sends more than is answered still hears. What it has
//! started goes on when it leaves.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error as SocketError;
use tokio_tungstenite::tungstenite::Message as Data;
use tokio_tungstenite::tungstenite::protocol::frame::Frame as Piece;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data as Kind, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use vivarium_protocol::discard;

use super::kernel::{Facts, Frame, Job, Kernel, Socket};
use super::shell;
use super::wire::{self, BadMessage, Format, Request};
use crate::dialects::native::Native;
use crate::off_thread::by_size;

/// How often a silent connection is used, for proxies that close those.
const PING_EVERY: Duration = Duration::from_secs(30);

/// A larger message is sent in pieces of so many bytes, so that no buffer grows to its size.
const PIECE_BYTES: usize = 64 << 10;

/// What is read and written at a time, in bytes.
const BUFFER_BYTES: usize = 16 << 10;

/// How long saying goodbye may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(2);

/// Why a client has to leave.
#[derive(Debug)]
enum End {
    /// It has left.
    Left,
    Bad(BadMessage),
    TooLarge,
    NoRoom,
    /// It reads nothing, or the kernel is gone.
    Cut,
}

impl End {
    fn close(self) -> Option<CloseFrame> {
        let (code, reason): (_, Cow<'static, str>) = match self {
            Self::Left => return None,
            Self::Bad(bad) => (CloseCode::Policy, bad.to_string().into()),
            Self::TooLarge => (CloseCode::Size, "a message is over server.max_body_bytes".into()),
            Self::NoRoom => (CloseCode::Again, "there is no room for this message".into()),
            Self::Cut => (CloseCode::Again, "the kernel is gone, or you read too slowly".into()),
        };
        Some(CloseFrame { code, reason: reason.as_ref().into() })
    }
}

/// A client that hears of a kernel, until this is dropped, wherever that is.
pub struct Joined<N: Native> {
    kernel: Arc<Kernel<N>>,
    socket: Socket,
    format: Format,
    unsent: mpsc::Receiver<Frame>,
}

impl<N: Native> Joined<N> {
    /// Before the client is told that it is connected, so that it misses nothing.
    #[must_use]
    pub fn new(kernel: Arc<Kernel<N>>, format: Format, facts: Facts) -> Self {
        let (socket, unsent) = kernel.join(format, facts);
        Self { kernel, socket, format, unsent }
    }
}

impl<N: Native> Drop for Joined<N> {
    fn drop(&mut self) {
        self.kernel.leave(&self.socket);
    }
}

/// Serves a client until it leaves.
///
/// `received` is called for every message that was read as a whole.
pub async fn serve<N: Native, S: AsyncRead + AsyncWrite + Send + Unpin>(
    stream: S,
    mut joined: Joined<N>,
    native: N,
    max_message_bytes: usize,
    received: impl Fn() + Send,
) {
    let config = WebSocketConfig::default()
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES)
        .max_message_size(Some(max_message_bytes))
        .max_frame_size(Some(max_message_bytes));
    let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
    let (mut to, mut from) = stream.split();
    let Joined { kernel, socket, format, unsent } = &mut joined;
    let end = tokio::select! {
        end = hear(&mut from, kernel, &native, socket, *format, received) => end,
        () = tell(&mut to, unsent) => End::Left,
        () = socket.is_cut() => End::Cut,
    };
    let kernel = Arc::clone(kernel);
    drop(joined);
    if let Some(close) = end.close() {
        tracing::debug!(kernel = kernel.id, ?close, "a client has to leave");
        let closing = to.send(Data::Close(Some(close)));
        discard(timeout(CLOSE_WITHIN, closing).await, "a client that is gone needs no goodbye");
    }
}

async fn hear<N: Native, S: AsyncRead + AsyncWrite + Unpin>(
    from: &mut SplitStream<WebSocketStream<S>>,
    kernel: &Arc<Kernel<N>>,
    native: &N,
    socket: &Socket,
    format: Format,
    received: impl Fn(),
) -> End {
    while let Some(data) = from.next().await {
        let message = match data {
            Ok(message @ (Data::Text(_) | Data::Binary(_))) => message,
            Ok(Data::Close(_)) => return End::Left,
            Ok(_) => continue,
            Err(SocketError::Capacity(_)) => return End::TooLarge,
            Err(error) => {
                tracing::debug!(%error, "socket of a kernel");
                return End::Left;
            }
        };
        let bytes = message.len();
        let room = match native.room(bytes * 2).await {
            Ok(room) => room,
            Err(_) => return End::NoRoom,
        };
        received();
        let read = move || {
            let read = match &message {
                Data::Text(text) => wire::read_text(text.as_bytes()),
                other => wire::read_binary(other.clone().into_data().as_ref(), format),
            };
            (read, room)
        };
        let (read, room) = by_size(bytes, read).await;
        match read {
            Err(bad) => return End::Bad(bad),
            Ok(request) => take(kernel, native, socket, request, room).await,
        }
    }
    End::Left
}

async fn take<N: Native>(
    kernel: &Kernel<N>,
    native: &N,
    socket: &Socket,
    request: Request,
    room: N::Room,
) {
    if shell::is_in_turn(&request) {
        let (native, socket) = (native.clone(), socket.clone());
        kernel.enqueue(Job { native, socket, request, room }).await;
    } else {
        shell::answer_at_once(kernel, native, socket, &request).await;
    }
}

/// Sends what there is, until the client takes nothing more.
async fn tell<S: AsyncRead + AsyncWrite + Unpin>(
    to: &mut SplitSink<WebSocketStream<S>, Data>,
    unsent: &mut mpsc::Receiver<Frame>,
) {
    let mut pings = interval(PING_EVERY);
    loop {
        let sent = tokio::select! {
            frame = unsent.recv() => match frame {
                Some(frame) => send(to, frame).await,
                None => return,
            },
            _ = pings.tick() => to.send(Data::Ping(Bytes::new())).await,
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "socket of a kernel");
            return;
        }
    }
}

async fn send<S: AsyncRead + AsyncWrite + Unpin>(
    to: &mut SplitSink<WebSocketStream<S>, Data>,
    Frame { mut bytes, is_text }: Frame,
) -> Result<(), SocketError> {
    let mut kind = if is_text { Kind::Text } else { Kind::Binary };
    loop {
        let piece = bytes.split_to(bytes.len().min(PIECE_BYTES));
        let is_last = bytes.is_empty();
        to.send(Data::Frame(Piece::message(piece, OpCode::Data(kind), is_last))).await?;
        if is_last {
            return Ok(());
        }
        kind = Kind::Continue;
    }
}
