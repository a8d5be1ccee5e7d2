//! The agent alone, driven as the supervisor drives it: launch, execute, replace, end.
//!
//! What tenants can and can not do is tested end to end in the workspace's `tests` package;
//! here it is that the programs of this package keep their side of the protocol.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_protocol::frame::{self, Decoder, MAX_FRAME_BYTES};
use vivarium_protocol::layer::{Intent, Layer, Plan, Report, Status};
use vivarium_protocol::message::{Completion, FromAgent, InputFile, Launch, Stream, ToAgent};
use vivarium_protocol::outcome::KernelEnd;
use vivarium_protocol::policy::{CpuCores, Interpreter, Limits, Network, Policy};
use vivarium_protocol::sequence::Sequence;
use vivarium_protocol::units::Limit;

const AGENT: &str = env!("CARGO_BIN_EXE_vivarium-agent");
const PYTHON: &str = "/usr/bin/python3";

fn interpreter() -> Interpreter {
    let output = Command::new(AGENT).args(["inspect", PYTHON]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let program = value["program"].as_str().unwrap();
    Interpreter {
        path: PathBuf::from(PYTHON),
        prefixes: serde_json::from_value(value["prefixes"].clone()).unwrap(),
        program: base64::Engine::decode(&base64::engine::general_purpose::STANDARD, program)
            .unwrap(),
        version: value["version"].as_str().unwrap().to_owned(),
    }
}

fn policy() -> Policy {
    let limit = |value| Limit::new(value).unwrap();
    let mut plan = Plan::full();
    plan.set(
        Layer::Cgroup,
        &Intent::Unavailable { detail: "not in this test".into(), fix: String::new() },
    );
    Policy {
        plan,
        limits: Limits {
            max_memory_mb: limit(2048),
            max_cpu_secs: limit(300),
            max_procs: limit(64),
            max_open_fds: limit(1024),
            max_file_size_mb: limit(256),
            max_disk_mb: limit(64),
            max_inodes: limit(1000),
            cpu_cores: CpuCores::ONE,
            max_output_bytes: limit(1 << 20),
            max_result_bytes: limit(1 << 20),
        },
        network: Network::Loopback,
        interpreter: interpreter(),
        env: vec![("LANG".to_owned(), "C.UTF-8".to_owned())],
        read_paths: vec![],
        workdir: PathBuf::from("/workspace"),
        host_workdir: None,
        cgroup: None,
        ids: None,
    }
}

/// One session, from outside.
struct Session {
    launcher: Child,
    socket: UnixStream,
    decoder: Decoder,
    sequence: Sequence,
    next: u64,
    protection: Vec<Report>,
}

/// What became of one execution.
#[derive(Default, Debug)]
struct Outcome {
    repr: Option<String>,
    exception: Option<String>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    stdout_dropped: u64,
    completion: Option<Completion>,
    end: Option<KernelEnd>,
    refused: Option<String>,
}

impl Session {
    fn launch(policy: Policy) -> Result<Self, String> {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new(AGENT);
        command.arg("launch").env_clear().stdin(Stdio::from(OwnedFd::from(theirs)));
        // As root the session's only id would be root's, which is never mapped.
        if nix::unistd::geteuid().is_root() {
            use std::os::unix::process::CommandExt;
            command.uid(65534).gid(65534);
        }
        let launcher = command.stdout(Stdio::null()).spawn().unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let launch = Launch { protocol_version: PROTOCOL_VERSION, policy };
        (&socket).write_all(&frame::encode(&launch, MAX_FRAME_BYTES).unwrap()).unwrap();
        let mut session = Self {
            launcher,
            socket,
            decoder: Decoder::new(MAX_FRAME_BYTES),
            sequence: Sequence::default(),
            next: 1,
            protection: vec![],
        };
        session.wait_until_ready().map(|()| session)
    }

    fn send(&mut self, message: &ToAgent) {
        self.socket.write_all(&frame::encode(message, MAX_FRAME_BYTES).unwrap()).unwrap();
    }

    fn hear(&mut self) -> Option<FromAgent> {
        loop {
            if let Some(message) = self.decoder.next_message::<FromAgent>().unwrap() {
                self.sequence.accept(&message).unwrap();
                return Some(message);
            }
            let mut buffer = vec![0; 64 << 10];
            let count = self.socket.read(&mut buffer).expect("the agent fell silent");
            if count == 0 {
                return None;
            }
            self.decoder.push(&buffer[..count]);
        }
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        loop {
            match self.hear() {
                Some(FromAgent::KernelReady { protection, .. }) => {
                    self.protection = protection;
                    return Ok(());
                }
                Some(FromAgent::KernelExited { .. }) => {}
                Some(FromAgent::Failed(failure)) => return Err(failure.to_string()),
                other => return Err(format!("{other:?}")),
            }
        }
    }

    fn start(&mut self, code: &str, files: Vec<InputFile>) -> u64 {
        let execution = self.next;
        self.next += 1;
        self.sequence.sent(execution);
        self.send(&ToAgent::Execute { execution, code: code.to_owned(), files });
        execution
    }

    fn finish(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        loop {
            match self.hear().expect("the session ended") {
                FromAgent::Started { .. } => {}
                FromAgent::Output { stream: Stream::Stdout, data, .. } => {
                    outcome.stdout.extend(data);
                }
                FromAgent::Output { stream: Stream::Stderr, data, .. } => {
                    outcome.stderr.extend(data);
                }
                FromAgent::Value { value, .. } => outcome.repr = Some(value.repr),
                FromAgent::Exception { exception, .. } => {
                    outcome.exception = Some(exception.type_name);
                }
                FromAgent::Done { completion, stdout_dropped, .. } => {
                    outcome.completion = Some(completion);
                    outcome.stdout_dropped = stdout_dropped;
                    return outcome;
                }
                FromAgent::KernelExited { end, .. } => {
                    outcome.end = Some(end);
                    self.wait_until_ready().unwrap();
                    return outcome;
                }
                FromAgent::FilesRefused { reason, .. } => {
                    outcome.refused = Some(reason);
                    return outcome;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn execute(&mut self, code: &str) -> Outcome {
        self.start(code, vec![]);
        self.finish()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).unwrap();
        let ended = self.launcher.wait().unwrap();
        let was_up = !self.protection.is_empty();
        assert!(ended.success() || !was_up, "the launcher ends with its session: {ended}");
    }
}

#[test]
fn every_layer_but_the_missing_ones_is_enforced() {
    let session = Session::launch(policy()).unwrap();
    let order: Vec<_> = session.protection.iter().map(|report| report.layer).collect();
    assert_eq!(order, Layer::ALL);
    for report in &session.protection {
        let expected = match report.layer {
            Layer::Cgroup => Status::Unavailable,
            Layer::Credentials => Status::Partial, // one id for agent and kernel
            _ => Status::Enforced,
        };
        assert_eq!(report.status, expected, "{report:?}");
    }
}

#[test]
fn values_output_and_exceptions_come_in_turn() {
    let mut session = Session::launch(policy()).unwrap();
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
    let printed = session.execute("import os\nprint('a')\nos.system('echo b')\nx = 3");
    assert_eq!((printed.stdout.as_slice(), printed.repr), (b"a\nb\n".as_slice(), None));
    assert_eq!(session.execute("x").repr.as_deref(), Some("3"));
    assert_eq!(session.execute("1/0").exception.as_deref(), Some("ZeroDivisionError"));
    let flood = session.execute("print('x' * (3 << 20))");
    assert_eq!(flood.stdout.len(), 1 << 20);
    assert_eq!(flood.stdout_dropped, (2 << 20) + 1);
}

#[test]
fn a_dead_kernel_is_told_with_its_evidence_and_replaced() {
    let mut session = Session::launch(policy()).unwrap();
    let end = session.execute("import os; print('last words', flush=True); os._exit(7)");
    assert_eq!(end.end, Some(KernelEnd::Exited(7)));
    assert_eq!(end.stdout, b"last words\n");
    let end = session.execute("import os; os.kill(os.getpid(), 11)").end;
    assert_eq!(end, Some(KernelEnd::Signaled { signal: 11, by_agent: false }));
    // A real-time signal has no name in most libraries.
    let end = session.execute("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN)").end;
    assert_eq!(end, Some(KernelEnd::Signaled { signal: 34, by_agent: false }));
    let end = session.execute("import os; os.write(3, b'nonsense' * 9)\nwhile 1: pass").end;
    assert!(matches!(end, Some(KernelEnd::Protocol(_))), "{end:?}");
    let end = session.execute("import os; os.close(3)\nwhile 1: pass").end;
    assert!(matches!(end, Some(KernelEnd::Protocol(_))), "{end:?}");
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
}

#[test]
fn interrupting_keeps_the_state_and_replacing_does_not() {
    let mut session = Session::launch(policy()).unwrap();
    session.execute("x = 5");
    let execution = session.start("print('go', flush=True)\nwhile True: pass", vec![]);
    loop {
        // The code is known to run once it has printed.
        if let Some(FromAgent::Output { .. }) = session.hear() {
            break;
        }
    }
    session.send(&ToAgent::Interrupt { execution });
    assert_eq!(session.finish().completion, Some(Completion::Interrupted));
    assert_eq!(session.execute("x").repr.as_deref(), Some("5"));
    session.execute("open('kept', 'w').close()");
    session.send(&ToAgent::Replace);
    session.wait_until_ready().unwrap();
    assert_eq!(session.execute("x").exception.as_deref(), Some("NameError"));
    assert_eq!(session.execute("import os; os.path.exists('kept')").repr.as_deref(), Some("True"));
}

#[test]
fn files_go_beneath_the_workdir_or_nowhere() {
    let mut session = Session::launch(policy()).unwrap();
    let file = |name: &str| InputFile { name: name.to_owned(), data: b"abc".to_vec() };
    session.start("open('in/a.txt').read()", vec![file("in/a.txt")]);
    assert_eq!(session.finish().repr.as_deref(), Some("'abc'"));
    session.execute("import os; os.symlink('/etc', 'link')");
    session.start("1", vec![file("link/passwd")]);
    assert!(session.finish().refused.unwrap().contains("symbolic link"));
    assert_eq!(session.execute("1+1").repr.as_deref(), Some("2"));
}

#[test]
fn a_policy_the_agent_can_not_accept_is_refused_by_name() {
    let mut refused = policy();
    refused.workdir = PathBuf::from("relative");
    let error = Session::launch(refused).err().unwrap();
    assert!(error.contains("workdir"), "{error}");
}
