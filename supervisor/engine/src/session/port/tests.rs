use std::fs::File;
use std::net::{TcpListener, UdpSocket};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use vivarium_protocol::message::ToAgent;

use super::*;
use crate::backend::fake::FakeSocket;
use crate::session::tests::{Bench, LONG_TIMEOUTS};

const REFUSED: i32 = 111;

type Connecting = JoinHandle<Result<PortStream, PortError>>;

/// A session that is asked for a connection to this port.
async fn asked(port: NonZeroU16) -> (Bench, Connecting) {
    let bench = Bench::started(LONG_TIMEOUTS).await;
    let session = Arc::clone(&bench.session);
    let connecting = tokio::spawn(async move { session.connect(port).await });
    (bench, connecting)
}

/// What the agent is asked for, and where it answers.
async fn request(bench: &mut Bench) -> (NonZeroU16, LoopbackAddress, FakeSocket) {
    match bench.agent.recv().await {
        Some(ToAgent::Connect(Connect { port, address })) => (port, address, bench.agent.socket()),
        other => panic!("no connection: {other:?}"),
    }
}

fn listener() -> (TcpListener, NonZeroU16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = NonZeroU16::new(listener.local_addr().unwrap().port()).unwrap();
    (listener, port)
}

/// What becomes of a connection if the agent hands this over.
async fn handed(port: NonZeroU16, socket: impl AsFd) -> (Bench, Result<PortStream, PortError>) {
    let (mut bench, connecting) = asked(port).await;
    let (_, _, reply) = request(&mut bench).await;
    port::answer(&reply, Ok(socket.as_fd())).unwrap();
    drop((reply, socket));
    let connected = connecting.await.unwrap();
    (bench, connected)
}

#[tokio::test]
async fn bytes_go_both_ways_and_count_as_use() {
    let (listener, port) = listener();
    let theirs = StdStream::connect(("127.0.0.1", port.get())).unwrap();
    let (_bench, connected) = handed(port, theirs).await;
    let mut stream = connected.unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true).unwrap();
    let mut server = TcpStream::from_std(accepted).unwrap();
    let mut bytes = [0; 4];
    stream.write_all(b"ping").await.unwrap();
    server.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"ping");
    stream.touched = Instant::now().checked_sub(TOUCH_EVERY).unwrap();
    let before = stream.session.status().last_used;
    server.write_all(b"pong").await.unwrap();
    stream.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"pong");
    assert!(stream.session.status().last_used > before);
    stream.shutdown().await.unwrap();
    assert_eq!(server.read(&mut bytes).await.unwrap(), 0);
}

#[tokio::test]
async fn second_address_is_tried_when_nothing_listens_on_the_first() {
    let (_, port) = listener();
    let (mut bench, connecting) = asked(port).await;
    for expected in [LoopbackAddress::V4, LoopbackAddress::V6] {
        let (asked, address, reply) = request(&mut bench).await;
        assert_eq!((asked, address), (port, expected));
        port::answer(&reply, Err(REFUSED)).unwrap();
    }
    assert!(matches!(connecting.await.unwrap(), Err(PortError::Closed)));
}

/// As when connect(2) was still under way.
#[tokio::test]
async fn refusal_that_comes_later_is_one_too() {
    let (listener, port) = listener();
    drop(listener);
    let flags = nix::sys::socket::SockFlag::SOCK_NONBLOCK;
    let family = nix::sys::socket::AddressFamily::Inet;
    let socket = nix::sys::socket::socket(family, SockType::Stream, flags, None).unwrap();
    let to = nix::sys::socket::SockaddrIn::new(127, 0, 0, 1, port.get());
    let begun = nix::sys::socket::connect(socket.as_raw_fd(), &to);
    assert!(begun.is_err());
    let (mut bench, connecting) = asked(port).await;
    let (_, _, reply) = request(&mut bench).await;
    port::answer(&reply, Ok(socket.as_fd())).unwrap();
    let (_, address, reply) = request(&mut bench).await;
    assert_eq!(address, LoopbackAddress::V6);
    port::answer(&reply, Err(REFUSED)).unwrap();
    assert!(matches!(connecting.await.unwrap(), Err(PortError::Closed)));
}

#[tokio::test]
async fn only_a_tcp_connection_to_that_very_port_is_taken() {
    let (other, other_port) = listener();
    let (_asked, port) = listener();
    let elsewhere = StdStream::connect(("127.0.0.1", other_port.get())).unwrap();
    let (unix, _peer) = StdUnixStream::pair().unwrap();
    let handed_over: [(&str, OwnedFd); 5] = [
        ("connected elsewhere", elsewhere.into()),
        ("a Unix socket", unix.into()),
        ("a datagram socket", UdpSocket::bind("127.0.0.1:0").unwrap().into()),
        ("a listening socket", other.into()),
        ("a file", File::open("/dev/null").unwrap().into()),
    ];
    for (name, socket) in handed_over {
        let (mut bench, connected) = handed(port, socket).await;
        assert!(matches!(connected, Err(PortError::Unusable(_))), "{name}: {connected:?}");
        bench.works().await;
    }
}

#[tokio::test]
async fn agent_that_sends_no_socket_fails_the_connection_only() {
    let (_listener, port) = listener();
    for bytes in [&[0; 4][..], &[255; 4], &[0; 1]] {
        let (mut bench, connecting) = asked(port).await;
        let (_, _, reply) = request(&mut bench).await;
        assert!(reply.write(bytes.to_vec()).await);
        assert!(matches!(connecting.await.unwrap(), Err(PortError::Unusable(_))), "{bytes:?}");
        bench.works().await;
    }
    let (mut bench, connecting) = asked(port).await;
    drop(request(&mut bench).await);
    assert!(matches!(connecting.await.unwrap(), Err(PortError::Over)));
    bench.works().await;
}

/// Its flags are shared with every duplicate, which a hostile agent may keep.
#[tokio::test]
async fn duplicate_of_the_socket_can_not_make_the_daemon_wait() {
    let (listener, port) = listener();
    let theirs = StdStream::connect(("127.0.0.1", port.get())).unwrap();
    let kept = theirs.try_clone().unwrap();
    let (_bench, connected) = handed(port, theirs).await;
    let mut stream = connected.unwrap();
    let (mut server, _) = listener.accept().unwrap();
    std::io::Write::write_all(&mut server, b"x").unwrap();
    stream.stream.readable().await.unwrap();
    kept.set_nonblocking(false).unwrap();
    std::io::Read::read_exact(&mut &kept, &mut [0]).unwrap();
    // The runtime still holds it to be readable, and there is nothing to be read.
    let mut bytes = [0; 1];
    let read = timeout(Duration::from_millis(20), stream.read(&mut bytes)).await;
    assert!(read.is_err(), "{read:?}");
}

#[tokio::test(start_paused = true)]
async fn agent_that_does_not_answer_is_waited_for_only_so_long() {
    let (_listener, port) = listener();
    let (mut bench, connecting) = asked(port).await;
    let (_, _, reply) = request(&mut bench).await;
    assert!(matches!(connecting.await.unwrap(), Err(PortError::TimedOut)));
    assert!(reply.read().await.is_empty(), "the agent's answer has no reader any more");
}

#[tokio::test(start_paused = true)]
async fn session_has_so_many_connections_and_no_more() {
    let bench = Bench::started(LONG_TIMEOUTS).await;
    let all = bench.session.ports.acquire_many(MAX_CONNECTIONS.try_into().unwrap()).await.unwrap();
    let port = NonZeroU16::new(1).unwrap();
    assert!(matches!(bench.session.connect(port).await, Err(PortError::TooMany)));
    drop(all);
}

#[tokio::test]
async fn end_of_the_session_ends_a_connection_that_is_being_made() {
    let (_listener, port) = listener();
    let (mut bench, connecting) = asked(port).await;
    drop(request(&mut bench).await);
    drop(bench.agent);
    assert!(matches!(connecting.await.unwrap(), Err(PortError::Over)));
}
