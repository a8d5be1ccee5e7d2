//! A gate as a daemon has it, a session that listens where the test says, a resolver that answers what
//! the test says, and servers.

#![allow(dead_code, reason = "no test uses all")]

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use vivarium_egress::message::Authority;
use vivarium_egress::wire::{self, MAX_GATE_FRAME_BYTES};
use vivarium_egress::{Decided, FromGate, Rules, ToGate};
use vivarium_protocol::stream::{receive, send_some};

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().unwrap().parent().unwrap().join("vivarium");
    assert!(path.exists(), "{}: run `cargo build --workspace` first", path.display());
    path
}

/// Names and their addresses, in turn: the last stays.
#[derive(Clone, Default)]
pub(crate) struct Zone(Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>);

impl Zone {
    pub(crate) fn put(&self, name: &str, answers: &[&[&str]]) {
        let parse = |one: &&[&str]| one.iter().map(|text| text.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.0.lock().unwrap().insert(name.to_owned(), answers);
    }

    /// Only a question for IPv4 takes an answer off.
    fn answer(&self, name: &str, kind: u16) -> Option<Vec<IpAddr>> {
        let mut zone = self.0.lock().unwrap();
        let answers = zone.get_mut(name)?;
        let found = answers.first().cloned().unwrap_or_default();
        if kind == 1 && answers.len() > 1 {
            answers.remove(0);
        }
        Some(found.into_iter().filter(|ip| ip.is_ipv4() == (kind == 1)).collect())
    }

    fn serve(self) -> SocketAddr {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((len, peer)) = socket.recv_from(&mut buffer) {
                let query = &buffer[..len];
                let mut at = 12;
                let mut labels = Vec::new();
                while query[at] != 0 {
                    let end = at + 1 + usize::from(query[at]);
                    labels.push(String::from_utf8_lossy(&query[at + 1..end]).into_owned());
                    at = end;
                }
                let question = &query[12..at + 5];
                let kind = u16::from_be_bytes([query[at + 1], query[at + 2]]);
                let found = self.answer(&labels.join("."), kind);
                let mut reply = query[..2].to_vec();
                reply.extend([0x81, if found.is_some() { 0x80 } else { 0x83 }]);
                let found = found.unwrap_or_default();
                reply.extend([0, 1, 0, u8::try_from(found.len()).unwrap(), 0, 0, 0, 0]);
                reply.extend(question);
                for address in found {
                    reply.extend([0xc0, 12]);
                    reply.extend(kind.to_be_bytes());
                    reply.extend([0, 1, 0, 0, 0, 60, 0]);
                    match address {
                        IpAddr::V4(v4) => reply.extend([&[4][..], &v4.octets()].concat()),
                        IpAddr::V6(v6) => reply.extend([&[16][..], &v6.octets()].concat()),
                    }
                }
                socket.send_to(&reply, peer).unwrap();
            }
        });
        address
    }
}

pub(crate) struct Gate {
    child: Child,
    socket: UnixStream,
    pub(crate) zone: Zone,
    pub(crate) confinement: Vec<String>,
    _dir: tempfile::TempDir,
}

impl Gate {
    pub(crate) fn start() -> Self {
        Self::start_trusting("")
    }

    pub(crate) fn start_trusting(authority_pem: &str) -> Self {
        let zone = Zone::default();
        let resolver = zone.clone().serve();
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("ca.pem");
        fs::write(&bundle, authority_pem).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(program())
            .args(["gate", "--hosts", "/nonexistent", "--nameserver", &resolver.to_string()])
            .arg("--ca-bundle")
            .arg(&bundle)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut gate = Self { child, socket: ours, zone, confinement: vec![], _dir: dir };
        let FromGate::Ready { confinement, .. } = gate.next() else { panic!("not ready") };
        gate.confinement = confinement;
        gate
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&self, message: &ToGate) {
        let bytes = wire::encode(message).unwrap();
        assert_eq!(send_some(&self.socket, &bytes, &[] as &[OwnedFd]).unwrap(), bytes.len());
    }

    pub(crate) fn next(&self) -> FromGate {
        receive(&self.socket, MAX_GATE_FRAME_BYTES).unwrap()
    }

    pub(crate) fn next_decided(&self) -> Decided {
        loop {
            if let FromGate::Decided(decided) = self.next() {
                return decided;
            }
        }
    }

    /// Opens a session; what comes back is where its programs find the gate.
    pub(crate) fn open(
        &self,
        session: u64,
        rules: &Rules,
        authority: Option<Authority>,
    ) -> SocketAddr {
        let (listener, answer) = self.try_open(session, rules, authority);
        assert_eq!(answer, FromGate::Opened { session });
        listener
    }

    pub(crate) fn try_open(
        &self,
        session: u64,
        rules: &Rules,
        authority: Option<Authority>,
    ) -> (SocketAddr, FromGate) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (tenant, rules) = ("default".to_owned(), rules.clone());
        let message = ToGate::Open { session, tenant, rules, authority };
        let bytes = wire::encode(&message).unwrap();
        let sent = send_some(&self.socket, &bytes, &[listener.as_fd()]).unwrap();
        assert_eq!(sent, bytes.len());
        let address = listener.local_addr().unwrap();
        loop {
            // Others' connections may be told of meanwhile.
            match self.next() {
                FromGate::Decided(_) | FromGate::Done { .. } => {}
                answer => return (address, answer),
            }
        }
    }

    /// Ends as a daemon that goes away.
    pub(crate) fn end(mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // Has ended already where a test went well.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// Rules with these entries, under which the tests' own servers are reached.
pub(crate) fn rules(allow: &[&str]) -> Rules {
    let mut rules = strict(allow);
    rules.allow_addresses = vec!["127.0.0.1".parse().unwrap()];
    rules
}

/// Rules with these entries, under which only the internet is reached.
pub(crate) fn strict(allow: &[&str]) -> Rules {
    let allow = allow.iter().map(|entry| entry.parse().unwrap()).collect();
    Rules { allow, ..Rules::default() }
}

/// A server that answers every connection with a fixed text, and keeps what it got.
pub(crate) struct Server {
    pub(crate) port: u16,
    got: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let got = Arc::new(Mutex::new(Vec::new()));
        let kept = got.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let kept = kept.clone();
                thread::spawn(move || {
                    let mut buffer = vec![0; 64 << 10];
                    let len = stream.read(&mut buffer).unwrap_or(0);
                    let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
                    kept.lock().unwrap().push(text);
                    stream.write_all(answer.as_bytes()).unwrap_or_default();
                });
            }
        });
        Self { port, got }
    }

    pub(crate) fn http() -> Self {
        Self::start("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    }

    pub(crate) fn got(&self) -> Vec<String> {
        self.got.lock().unwrap().clone()
    }
}

pub(crate) fn connect(gate: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(gate).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends bytes, and reads to the end.
pub(crate) fn ask(gate: SocketAddr, bytes: impl AsRef<[u8]>) -> String {
    let mut stream = connect(gate);
    stream.write_all(bytes.as_ref()).unwrap();
    let mut answer = Vec::new();
    // A reset is an end.
    stream.read_to_end(&mut answer).map(drop).unwrap_or_default();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Asks for a tunnel, and reads the answer's head.
pub(crate) fn tunnel(gate: SocketAddr, place: &str) -> (TcpStream, String) {
    let mut stream = connect(gate);
    write!(stream, "CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n").unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    (stream, String::from_utf8_lossy(&head).into_owned())
}
