//! There is no way out but the gate, whatever code does.

use serde_json::json;
use vivarium_tests::probe;

use crate::played::Gate;
use crate::{get, setup, trusted};

const LIST: &str = "allow = [\"files.example\"]";

/// A service on the host's loopback.
fn service() -> (std::net::TcpListener, u16) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[test]
fn direct_sockets_lead_nowhere() {
    let gate = Gate::start();
    let daemon = setup(&gate, LIST).start();
    let session = daemon.session_with(&trusted());
    let (_listener, port) = service();
    let host = format!("socket.create_connection(('127.0.0.1', {port}), 5).close()");
    let unreachable = "ENETUNREACH";
    // The gate's own socket is on the host, where the daemon reaches it.
    let control = format!("connect(socket.AF_UNIX, {:?})", gate.path().to_str().unwrap());
    drop(std::os::unix::net::UnixStream::connect(gate.path()).unwrap());
    probe::check(
        &session,
        &[
            // The control: the gate is there.
            ("socket.create_connection(('127.0.0.1', 3128), 5).close()", "works"),
            ("connect(socket.AF_INET, ('192.0.2.1', 443))", unreachable),
            ("connect(socket.AF_INET, ('192.0.2.1', 53), socket.SOCK_DGRAM)", unreachable),
            ("connect(socket.AF_INET, ('169.254.169.254', 80))", unreachable),
            ("connect(socket.AF_INET6, ('2001:db8::1', 443))", unreachable),
            ("connect(socket.AF_INET6, ('fd00:ec2::254', 80))", unreachable),
            ("connect(socket.AF_INET6, ('fe80::1', 80))", "ENETUNREACH|EINVAL"),
            (&host, "ECONNREFUSED"),
            (&control, "ENOENT"),
        ],
    );
    // The same service is reached where nothing keeps code from it.
    let open = vivarium_tests::Setup::default()
        .without(&["network"])
        .config("sandbox", "network_fallback = \"full\"")
        .start();
    probe::check(&open.session(), &[(&host, "works")]);
}

#[test]
fn names_are_not_resolved_inside_and_variables_are_no_boundary() {
    let gate = Gate::start();
    let daemon = setup(&gate, LIST).start();
    let session = daemon.session_with(&trusted());
    let unset = "import os, socket, urllib.request\n\
                 for name in list(os.environ):\n    if name.lower().endswith('_proxy'): del os.environ[name]\n\
                 try: urllib.request.urlopen('http://files.example/', timeout=30)\n\
                 except OSError as e: print('no way', e)\n\
                 try: socket.getaddrinfo('files.example', 80)\n\
                 except socket.gaierror: print('no names')";
    let printed = session.execute(unset).ok().stdout().to_owned();
    assert!(printed.contains("no way") && printed.contains("no names"), "{printed}");
    // In another session they are as they were.
    let other = daemon.session_with(&trusted());
    assert!(other.execute(&get("http://files.example/")).ok().stdout().starts_with("200"));
}

#[test]
fn sessions_have_listeners_of_their_own_and_code_takes_none() {
    let gate = Gate::start();
    let daemon = setup(&gate, LIST).start();
    let narrow = json!({"network": "trusted", "egress_allow": []});
    let (wide, narrow) = (daemon.session_with(&trusted()), daemon.session_with(&narrow));
    gate.until_serving(2);
    // The port is the same, and what is behind it is not.
    let code = get("http://files.example/");
    assert!(wide.execute(&code).ok().stdout().starts_with("200"));
    assert!(narrow.execute(&code).ok().stdout().starts_with("403"));
    // A server of the one is not the other's.
    let serve = "import socket\ns = socket.create_server(('127.0.0.1', 4000))";
    let _listening = wide.execute(serve).ok();
    probe::check(
        &narrow,
        &[("socket.create_connection(('127.0.0.1', 4000), 5).close()", "ECONNREFUSED")],
    );
    probe::check(&wide, &[("socket.create_connection(('127.0.0.1', 4000), 5).close()", "works")]);
    for option in ["SO_REUSEADDR", "SO_REUSEPORT"] {
        let take = |port: u16| {
            format!(
                "import socket\ns = socket.socket()\n\
                 s.setsockopt(socket.SOL_SOCKET, socket.{option}, 1)\n\
                 try: s.bind(('0.0.0.0', {port})); s.listen(); print('taken'); s.close()\n\
                 except OSError as e: print(e.errno)"
            )
        };
        assert_eq!(wide.execute(&take(3128)).ok().stdout(), "98\n", "{option}");
        assert_eq!(wide.execute(&take(3129)).ok().stdout(), "taken\n", "{option}");
    }
    // A network without a gate has nothing there.
    let loopback = daemon.session();
    probe::check(&loopback, &[("connect(socket.AF_INET, ('127.0.0.1', 3128))", "ECONNREFUSED")]);
}

#[test]
fn without_a_network_namespace_there_is_no_network_and_no_gate() {
    let gate = Gate::start();
    let daemon = setup(&gate, LIST).without(&["network"]).start();
    let session = daemon.session_with(&trusted());
    assert_eq!(session.info()["network"], "none");
    let report = session.layer("network");
    assert!(report["detail"].as_str().unwrap().contains("AF_UNIX"), "{report}");
    probe::check(&session, &[("connect(socket.AF_INET, ('127.0.0.1', 3128))", "EPERM")]);
    assert!(gate.sessions().is_empty());
}
