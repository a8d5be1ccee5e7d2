//! An internet of the test's own, in which every address answers.
//!
//! The calling thread moves to a network namespace of its own, which is the host of daemons that it starts
//! from then on: an interface with a public address, a default route, and a resolver. Beyond is another
//! namespace, where every address is local. No packet leaves these two. Needs [`Requirement::Passt`].
//!
//! [`Requirement::Passt`]: crate::host::Requirement::Passt

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;

/// What answers by TCP at port 80 of every address, and by UDP at port 123 of two.
pub const GREETING: &str = "from the internet";
/// An address beyond.
pub const PUBLIC_V4: &str = "11.22.33.44";
/// Another.
pub const PUBLIC_V6: &str = "2a00:11::44";
/// The host's own.
pub const HOST_V4: &str = "11.0.0.1";
/// Another.
pub const HOST_V6: &str = "2a00:22::1";
/// The host's resolver, which gives [`PUBLIC_V4`] for every name.
const RESOLVER: &str = "10.255.0.53";

/// Moves the calling thread there.
///
/// # Panics
/// If the host does not let it.
pub fn enter() {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
    let resolv_conf = crate::program::temp_dir();
    let file = resolv_conf.path().join("resolv.conf");
    fs::write(&file, format!("nameserver {RESOLVER}\n")).unwrap();
    let resolver = fs::canonicalize("/etc/resolv.conf").unwrap();
    mount(Some(&file), &resolver, none, MsFlags::MS_BIND, none).unwrap();

    let (made, thread_of_it) = mpsc::channel();
    let (connect, connected) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        made.send(gettid()).unwrap();
        let () = connected.recv().unwrap();
        for arguments in [
            "link set lo up",
            "link set beyond up",
            "addr add 11.0.0.254/24 dev beyond",
            "-6 addr add 2a00:22::fe/64 dev beyond nodad",
            "-6 rule add iif beyond lookup 100",
            "route add local 0.0.0.0/0 dev lo",
            "-6 route add local ::/0 dev lo table 100",
            "addr add 10.255.0.53/32 dev lo",
            "addr add 11.22.33.44/32 dev lo",
            "-6 addr add 2a00:11::44/128 dev lo nodad",
        ] {
            ip(arguments);
        }
        serve();
        ready.send(()).unwrap();
        // The namespace is there as long as somebody is in it.
        thread::park();
    });
    let beyond = thread_of_it.recv().unwrap();
    ip("link set lo up");
    ip(&format!("link add uplink type veth peer name beyond netns {beyond}"));
    connect.send(()).unwrap();
    is_ready.recv().unwrap();
    for arguments in [
        "link set uplink up",
        "addr add 11.0.0.1/24 dev uplink",
        "-6 addr add 2a00:22::1/64 dev uplink nodad",
        "route add default via 11.0.0.254",
        "-6 route add default via 2a00:22::fe",
    ] {
        ip(arguments);
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split_whitespace()).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

fn serve() {
    let any = |port| SocketAddr::from((IpAddr::from(Ipv6Addr::UNSPECIFIED), port));
    let listener = TcpListener::bind(any(80)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _gone = stream.unwrap().write_all(GREETING.as_bytes()).is_err();
        }
    });
    // Each at its own address, which the answer has to come from.
    for at in [(RESOLVER, 53), (PUBLIC_V4, 123), (PUBLIC_V6, 123)] {
        let socket = UdpSocket::bind(at).unwrap();
        thread::spawn(move || answer(&socket));
    }
}

/// Answers names, and greets who asks none.
fn answer(socket: &UdpSocket) {
    let mut question = [0; 1500];
    while let Ok((len, peer)) = socket.recv_from(&mut question) {
        let question = question.get(..len).unwrap_or_default();
        let answer = name(question).unwrap_or_else(|| GREETING.as_bytes().to_vec());
        let _gone = socket.send_to(&answer, peer).is_err();
    }
}

/// The answer to a question for an IPv4 address, with one for every name: RFC 1035.
fn name(question: &[u8]) -> Option<Vec<u8>> {
    let header = question.get(..12)?;
    let end = 12 + question.get(12..)?.iter().position(|byte| *byte == 0)? + 5;
    let asked = question.get(12..end)?;
    let is_v4 = asked.get(asked.len() - 4..) == Some(&[0, 1, 0, 1]);
    let mut answer = header.get(..2)?.to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_v4), 0, 0, 0, 0]);
    answer.extend(asked);
    if is_v4 {
        let address: std::net::Ipv4Addr = PUBLIC_V4.parse().ok()?;
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        answer.extend(address.octets());
    }
    Some(answer)
}
