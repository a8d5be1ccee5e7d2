//! A gate as a daemon has it, a session that listens where the test says, a resolver that answers what
//! the test says, and servers.

#![allow(dead_code, reason = "no test uses all")]

pub(crate) mod packages;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use vivarium_egress::message::Authority;
use vivarium_egress::wire::{self, MAX_GATE_FRAME_BYTES};
use vivarium_egress::{Decided, FromGate, Rules, ToGate};
use vivarium_protocol::stream::{receive, send_some};
use vivarium_tests::program;
use vivarium_tests::resolver::Zone;

/// How long anything is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

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
        Self::start_with(authority_pem, &[])
    }

    pub(crate) fn start_with(authority_pem: &str, arguments: &[&str]) -> Self {
        let zone = Zone::default();
        let resolver = zone.clone().serve();
        let dir = tempfile::tempdir().unwrap();
        let bundle = dir.path().join("ca.pem");
        fs::write(&bundle, authority_pem).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(program::path("vivarium"))
            .args(["gate", "--hosts", "/nonexistent", "--nameserver", &resolver.to_string()])
            .arg("--ca-bundle")
            .arg(&bundle)
            .args(arguments)
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
        self.try_open_for("default", session, rules, authority)
    }

    pub(crate) fn try_open_for(
        &self,
        tenant: &str,
        session: u64,
        rules: &Rules,
        authority: Option<Authority>,
    ) -> (SocketAddr, FromGate) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (tenant, rules) = (tenant.to_owned(), rules.clone());
        let message = ToGate::Open { session, tenant, rules, authority };
        let bytes = wire::encode(&message).unwrap();
        let sent = send_some(&self.socket, &bytes, &[listener.as_fd()]).unwrap();
        assert_eq!(sent, bytes.len());
        let address = listener.local_addr().unwrap();
        loop {
            // Others' connections may be told of meanwhile.
            match self.next() {
                FromGate::Decided(_) | FromGate::Done { .. } | FromGate::Warning { .. } => {}
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

/// A server that reads to the end of a body in chunks before it answers, and keeps what it got.
pub(crate) fn until_end_of_chunks() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let got = Arc::new(Mutex::new(Vec::new()));
    let kept = got.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut bytes) = (stream.unwrap(), Vec::new());
            let mut buffer = [0; 1024];
            while !bytes.ends_with(b"\r\n0\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(len @ 1..) => bytes.extend_from_slice(&buffer[..len]),
                    _ => break,
                }
            }
            let is_whole = bytes.ends_with(b"\r\n0\r\n\r\n");
            kept.lock().unwrap().push(String::from_utf8(bytes).unwrap());
            if is_whole {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwhole")
                    .unwrap_or_default();
            }
        }
    });
    (port, got)
}

/// A server that sends to every connection for as long as it takes it.
pub(crate) fn endless() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || while stream.write_all(&[b'x'; 16 << 10]).is_ok() {});
        }
    });
    port
}

/// A request with these header lines more.
pub(crate) fn get(host: &str, headers: &str) -> String {
    format!("GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n")
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
