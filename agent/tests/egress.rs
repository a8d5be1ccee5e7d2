//! The way out of a session whose network is `trusted`, without a gate: the socket on which one would
//! accept.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing)]

mod harness;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use harness::{Session, policy};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use vivarium_protocol::leaf::FIRST_CONTEXT;
use vivarium_protocol::message::ToAgent;
use vivarium_protocol::policy::{Network, Policy};

fn trusted() -> Policy {
    Policy { network: Network::Trusted, ..policy() }
}

/// Connects to the gate and prints what it says.
const CONNECT: &str = "\
import socket
with socket.create_connection((\"127.0.0.1\", 3128), timeout=30) as s:
    print(s.recv(9).decode())";

/// Accepts one connection, as the gate would.
fn accept(listener: &TcpListener) -> TcpStream {
    let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    assert_eq!(poll(&mut fds, PollTimeout::from(30_000_u16)).unwrap(), 1, "nobody connects");
    listener.accept().unwrap().0
}

fn answers(session: &mut Session, listener: &TcpListener) {
    let execution = session.start(CONNECT, vec![]);
    let mut stream = accept(listener);
    assert_eq!(stream.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
    stream.write_all(b"from gate").unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(session.finish_of(execution).stdout, b"from gate\n");
}

#[test]
fn listener_leads_out_of_the_session_and_outlives_kernels() {
    let mut session = Session::launch(trusted()).unwrap();
    let listener = session.egress_listener().unwrap();
    answers(&mut session, &listener);
    session.send(&ToAgent::Replace { context: FIRST_CONTEXT });
    while !matches!(
        session.recv(),
        Some(vivarium_protocol::message::FromAgent::KernelExited { .. })
    ) {}
    session.wait_until_ready().unwrap();
    answers(&mut session, &listener);
    // A gate that took over gets the same.
    drop(listener);
    let listener = session.egress_listener().unwrap();
    answers(&mut session, &listener);
}

#[test]
fn code_can_not_take_the_port() {
    let mut session = Session::launch(trusted()).unwrap();
    let take = |address: &str, option: &str| {
        format!(
            "import socket\n\
             s = socket.socket()\n\
             s.setsockopt(socket.SOL_SOCKET, socket.{option}, 1)\n\
             try:\n    s.bind(({address:?}, port)); s.listen(); print(\"taken\")\n\
             except OSError as e:\n    print(e.errno)"
        )
    };
    for address in ["127.0.0.1", "0.0.0.0"] {
        for option in ["SO_REUSEADDR", "SO_REUSEPORT"] {
            session.execute("port = 3128");
            let stdout = session.execute(&take(address, option)).stdout;
            assert_eq!(stdout, b"98\n", "EADDRINUSE: {address} {option}");
            session.execute("port = 3129");
            assert_eq!(session.execute(&take(address, option)).stdout, b"taken\n");
            session.execute("s.close()");
        }
    }
}

#[test]
fn no_other_network_has_a_listener() {
    for network in [Network::None, Network::Loopback, Network::Full] {
        let session = Session::launch(Policy { network, ..policy() }).unwrap();
        let errno = session.egress_listener().unwrap_err();
        assert_eq!(errno, nix::errno::Errno::ENETUNREACH as i32, "{network:?}");
    }
}

#[test]
fn variables_lead_programs_to_the_gate_unless_the_session_says_otherwise() {
    let ask = "import os\nprint(os.environ.get(\"https_proxy\"), os.environ.get(\"NO_PROXY\"))";
    let mut session = Session::launch(trusted()).unwrap();
    let stdout = session.execute(ask).stdout;
    assert_eq!(stdout, b"http://127.0.0.1:3128 localhost,127.0.0.1,::1\n");
    assert_eq!(session.shell("echo $HTTPS_PROXY").stdout, b"http://127.0.0.1:3128\n");
    let mut own = trusted();
    own.env.push(("NO_PROXY".to_owned(), "example.org".to_owned()));
    let stdout = Session::launch(own).unwrap().execute(ask).stdout;
    assert_eq!(stdout, b"http://127.0.0.1:3128 example.org\n");
    let stdout = Session::launch(policy()).unwrap().execute(ask).stdout;
    assert_eq!(stdout, b"None None\n");
}

#[test]
fn session_trusts_its_own_authority_beside_the_systems() {
    let ours = "-----BEGIN CERTIFICATE-----\nours\n-----END CERTIFICATE-----\n";
    let mut own = trusted();
    own.ca_certificate = Some(ours.to_owned());
    let mut session = Session::launch(own).unwrap();
    let outcome = session.execute(
        "import os\ntext = open(os.environ[\"SSL_CERT_FILE\"]).read()\n\
         print(text.count(\"BEGIN CERTIFICATE\"))\nprint(text[-70:])",
    );
    let stdout = String::from_utf8(outcome.stdout).unwrap();
    let (count, last) = stdout.split_once('\n').unwrap();
    let system = std::fs::read_to_string("/etc/ssl/certs/ca-certificates.crt").unwrap_or_default();
    assert_eq!(count, (system.matches("BEGIN CERTIFICATE").count() + 1).to_string());
    assert!(last.contains("ours"), "{last}");
    let shell = session.shell("cat /etc/session-ca-bundle.pem | tail -n 2; echo $PIP_CERT");
    assert!(shell.stdout.ends_with(b"/etc/session-ca-bundle.pem\n"), "{shell:?}");
}
