//! A gate that the test plays: it has the daemon's rules, and answers in the destination's place.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_egress::decision::SessionKey;
use vivarium_egress::message::{Authority, GATE_VERSION};
use vivarium_egress::rules::Verdict;
use vivarium_egress::wire::{GateReceiver, encode};
use vivarium_egress::{Decided, Decision, FromGate, Reason, Rules, ToGate, Via};
use vivarium_protocol::stream::recv_some;
use vivarium_tests::{program, wait};

/// What the gate knows of a session.
#[derive(Debug, Clone)]
pub(crate) struct Opened {
    pub(crate) tenant: String,
    pub(crate) rules: Rules,
    pub(crate) authority: Option<Authority>,
}

type Sessions = Arc<Mutex<BTreeMap<SessionKey, Opened>>>;

/// Where gates are, and the one that is there.
pub(crate) struct Gate {
    dir: tempfile::TempDir,
    listener: Arc<UnixListener>,
    life: Option<Life>,
}

/// One gate's life.
struct Life {
    over: Arc<AtomicBool>,
    control: Arc<Mutex<Option<UnixStream>>>,
    sessions: Sessions,
}

impl Gate {
    /// A place with a gate.
    pub(crate) fn start() -> Self {
        let mut gate = Self::absent();
        gate.come();
        gate
    }

    /// A place where nothing accepts yet.
    pub(crate) fn absent() -> Self {
        let dir = program::temp_dir();
        let path = dir.path().join("gate");
        let listener = UnixListener::bind(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { dir, listener: Arc::new(listener), life: None }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("gate")
    }

    /// Has a gate serve the daemon that connects.
    pub(crate) fn come(&mut self) {
        let life = Life { over: Arc::default(), control: Arc::default(), sessions: Arc::default() };
        let (over, sessions) = (Arc::clone(&life.over), Arc::clone(&life.sessions));
        let (listener, kept) = (Arc::clone(&self.listener), Arc::clone(&life.control));
        thread::spawn(move || {
            let control = loop {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                poll(&mut fds, PollTimeout::from(20_u8)).unwrap();
                if let Ok((control, _)) = listener.accept() {
                    break control;
                }
            };
            control.set_nonblocking(false).unwrap();
            *kept.lock().unwrap() = Some(control.try_clone().unwrap());
            serve(&control, &sessions, &over);
        });
        self.life = Some(life);
    }

    /// Ends the gate that is there, with all connections.
    pub(crate) fn go(&mut self) {
        let Some(life) = self.life.take() else { return };
        life.over.store(true, Ordering::Relaxed);
        if let Some(control) = life.control.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(control.shutdown(Shutdown::Both));
        }
    }

    /// The sessions that it serves now.
    pub(crate) fn sessions(&self) -> Vec<Opened> {
        self.life.as_ref().unwrap().sessions.lock().unwrap().values().cloned().collect()
    }

    /// Waits until it serves so many.
    pub(crate) fn until_serving(&self, count: usize) -> Vec<Opened> {
        wait::until("sessions at the gate", || {
            Some(self.sessions()).filter(|sessions| sessions.len() == count)
        })
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.go();
    }
}

fn send(control: &UnixStream, message: &FromGate) {
    let mut control = control;
    // The daemon may be gone.
    drop(control.write_all(&encode(message).unwrap()));
}

fn serve(control: &UnixStream, sessions: &Sessions, over: &Arc<AtomicBool>) {
    send(control, &FromGate::Ready { version: GATE_VERSION, confinement: vec![] });
    let mut receiver = GateReceiver::default();
    loop {
        let mut fds = [PollFd::new(control.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::NONE).unwrap();
        let mut bytes = vec![0; 65536];
        let Ok((len @ 1.., descriptors)) = recv_some(control, &mut bytes) else { return };
        receiver.push(&bytes[..len], descriptors);
        while let Some((message, socket)) = receiver.next_message().unwrap() {
            match message {
                ToGate::Open { session, tenant, rules, authority } => {
                    let opened = Opened { tenant, rules, authority };
                    sessions.lock().unwrap().insert(session, opened);
                    let (own, sessions) = (control.try_clone().unwrap(), Arc::clone(sessions));
                    let (socket, over) = (socket.unwrap(), Arc::clone(over));
                    send(control, &FromGate::Opened { session });
                    thread::spawn(move || accept(socket, session, &own, &sessions, &over));
                }
                ToGate::Update { session, rules } => {
                    if let Some(opened) = sessions.lock().unwrap().get_mut(&session) {
                        opened.rules = rules;
                    }
                }
                ToGate::Close { session } => {
                    sessions.lock().unwrap().remove(&session);
                    send(control, &FromGate::Closed { session, bytes_in: 0, bytes_out: 0 });
                }
                ToGate::Count { id, .. } => send(control, &FromGate::Counted { id, bytes: None }),
                ToGate::Call { .. } | ToGate::Answer { .. } => {}
            }
        }
    }
}

/// Accepts as long as the session is served.
fn accept(
    socket: OwnedFd,
    session: SessionKey,
    control: &UnixStream,
    sessions: &Sessions,
    over: &Arc<AtomicBool>,
) {
    let listener = TcpListener::from(socket);
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        if !sessions.lock().unwrap().contains_key(&session) {
            return;
        }
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::from(20_u8)).unwrap() == 0 {
            continue;
        }
        let Ok((stream, _)) = listener.accept() else { continue };
        let Some(opened) = sessions.lock().unwrap().get(&session).cloned() else { return };
        number += 1;
        let control = control.try_clone().unwrap();
        thread::spawn(move || converse(stream, session, number, &opened.rules, &control));
    }
}

/// Answers one request: what was asked for, if the rules allow it.
fn converse(
    mut stream: TcpStream,
    session: SessionKey,
    connection: u64,
    rules: &Rules,
    control: &UnixStream,
) {
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut words = head.split([' ', '\r']);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let place = target.strip_prefix("http://").unwrap_or(target);
    let place = place.split('/').next().unwrap();
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().unwrap()),
        None => (place, 80),
    };
    let host_of = host.parse().unwrap();
    let allowed = matches!(rules.verdict(&host_of, port), Verdict::Allowed(_));
    let (decision, reason) = if allowed {
        (Decision::Allowed, Reason::Listed)
    } else {
        (Decision::Refused, Reason::NotListed)
    };
    send(
        control,
        &FromGate::Decided(Decided {
            session,
            connection,
            decision,
            reason,
            via: if method == "CONNECT" { Via::Connect } else { Via::Http },
            destination: host.to_owned(),
            port,
            method: Some(method.to_owned()),
            address: None,
        }),
    );
    let (status, body) = if allowed {
        ("200 OK", format!("reached {host}:{port}"))
    } else {
        ("403 Forbidden", format!("egress refused: {host}:{port} is not listed"))
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    drop(stream.write_all(answer.as_bytes()));
    if allowed {
        send(
            control,
            &FromGate::Done {
                session,
                connection,
                bytes_in: body.len() as u64,
                bytes_out: head.len() as u64,
                duration: Duration::ZERO,
                cut: None,
            },
        );
    }
}
