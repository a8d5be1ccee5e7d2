//! The real gate with an outside that the test makes: a resolver, an authority, and servers on the
//! host's loopback, which the configuration permits.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use vivarium_tests::gate::Gates;
use vivarium_tests::resolver::Zone;
use vivarium_tests::{Setup, program};

/// Gates with the outside's resolver.
pub(crate) struct Outside {
    pub(crate) zone: Zone,
    gates: Gates,
    _dir: tempfile::TempDir,
}

impl Outside {
    /// Destinations prove who they are by an authority's certificate.
    pub(crate) fn trusting(authority_pem: &str) -> Self {
        let (zone, dir) = (Zone::default(), program::temp_dir());
        let resolver = zone.clone().serve().to_string();
        let bundle = dir.path().join("ca.pem");
        fs::write(&bundle, authority_pem).unwrap();
        let bundle = bundle.display().to_string();
        let arguments =
            ["--hosts", "/nonexistent", "--nameserver", &resolver, "--ca-bundle", &bundle];
        let gates = Gates::listen(dir.path(), &arguments);
        Self { zone, gates, _dir: dir }
    }

    pub(crate) fn start() -> Self {
        Self::trusting("")
    }

    /// A daemon that uses it, and these lines of `[egress]`.
    pub(crate) fn setup(&self, egress: &str) -> Setup {
        Setup::default()
            .config("sandbox", "allowed_networks = [\"none\", \"loopback\", \"trusted\"]")
            .config("egress", &(self.gates.lines() + egress))
    }

    /// Kills the gate that serves now, whatever it is doing.
    pub(crate) fn kill_gate(&self) {
        self.gates.kill();
    }
}

pub(crate) const HELLO: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\noutside";

/// What a server got, a text for each connection.
pub(crate) type Got = Arc<Mutex<Vec<String>>>;

/// A server that answers each request with this.
pub(crate) fn server(answer: &str) -> (u16, Got) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (got, answer) = (Got::default(), answer.to_owned());
    let kept = got.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, kept, answer) = (stream.unwrap(), kept.clone(), answer.clone());
            thread::spawn(move || {
                let mut head = vec![0; 16 << 10];
                if let Ok(len @ 1..) = stream.read(&mut head) {
                    kept.lock().unwrap().push(String::from_utf8_lossy(&head[..len]).into_owned());
                    drop(stream.write_all(answer.as_bytes()));
                }
            });
        }
    });
    (port, got)
}
