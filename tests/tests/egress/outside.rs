//! The real gate with an outside that the test makes: a resolver, an authority, and servers on the
//! host's loopback, which the configuration permits.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use vivarium_tests::resolver::Zone;
use vivarium_tests::{Setup, program};

/// Where gates are: one is started for each connection of a daemon, with the outside's resolver.
pub(crate) struct Outside {
    dir: tempfile::TempDir,
    pub(crate) zone: Zone,
    gates: Arc<Mutex<Vec<Child>>>,
}

impl Outside {
    /// Destinations prove who they are by an authority's certificate.
    pub(crate) fn trusting(authority_pem: &str) -> Self {
        let (zone, dir) = (Zone::default(), program::temp_dir());
        let resolver = zone.clone().serve().to_string();
        let (path, bundle) = (dir.path().join("gate"), dir.path().join("ca.pem"));
        fs::write(&bundle, authority_pem).unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        let gates = Arc::<Mutex<Vec<Child>>>::default();
        let started = gates.clone();
        thread::spawn(move || {
            for control in listener.incoming() {
                let gate = Command::new(program::path("vivarium"))
                    .args(["gate", "--hosts", "/nonexistent", "--nameserver", &resolver])
                    .arg("--ca-bundle")
                    .arg(&bundle)
                    .env_clear()
                    .stdin(Stdio::from(OwnedFd::from(control.unwrap())))
                    .spawn()
                    .unwrap();
                started.lock().unwrap().push(gate);
            }
        });
        Self { dir, zone, gates }
    }

    pub(crate) fn start() -> Self {
        Self::trusting("")
    }

    /// A daemon that uses it, and these lines of `[egress]`.
    pub(crate) fn setup(&self, egress: &str) -> Setup {
        let gate = self.dir.path().join("gate");
        let permitted = "allow_addresses = [\"127.0.0.1\"]";
        let egress = format!("gate = \"unix:{}\"\n{permitted}\n{egress}", gate.display());
        Setup::default()
            .config("sandbox", "allowed_networks = [\"none\", \"loopback\", \"trusted\"]")
            .config("egress", &egress)
    }

    /// Kills the gate that serves now, whatever it is doing.
    pub(crate) fn kill_gate(&self) {
        for mut gate in self.gates.lock().unwrap().drain(..) {
            gate.kill().unwrap();
            gate.wait().map(drop).unwrap();
        }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        self.kill_gate();
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
