//! Gates that are units of their own: one is started for each connection of a daemon.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::program;

/// The gates of one socket. They end with it.
#[derive(Debug)]
pub struct Gates {
    socket: PathBuf,
    started: Arc<Mutex<Vec<Child>>>,
}

impl Gates {
    /// Listens in this directory, for gates with these arguments.
    #[must_use]
    pub fn listen(dir: &Path, arguments: &[&str]) -> Self {
        let socket = dir.join("gate");
        let arguments: Vec<_> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let listener = UnixListener::bind(&socket).unwrap();
        fs::set_permissions(&socket, Permissions::from_mode(0o666)).unwrap();
        let started = Arc::<Mutex<Vec<Child>>>::default();
        let kept = started.clone();
        thread::spawn(move || {
            for control in listener.incoming() {
                let gate = Command::new(program::path("vivarium"))
                    .arg("gate")
                    .args(&arguments)
                    .env_clear()
                    .stdin(Stdio::from(OwnedFd::from(control.unwrap())))
                    .spawn()
                    .unwrap();
                kept.lock().unwrap().push(gate);
            }
        });
        Self { socket, started }
    }

    /// What goes into `[egress]`: the gate, and the host's loopback as a destination.
    #[must_use]
    pub fn lines(&self) -> String {
        let socket = self.socket.display();
        format!("gate = \"unix:{socket}\"\nallow_addresses = [\"127.0.0.1\"]\n")
    }

    /// Kills the gate that serves now, whatever it is doing.
    pub fn kill(&self) {
        for mut gate in self.started.lock().unwrap().drain(..) {
            gate.kill().unwrap();
            gate.wait().map(drop).unwrap();
        }
    }
}

impl Drop for Gates {
    fn drop(&mut self) {
        self.kill();
    }
}
