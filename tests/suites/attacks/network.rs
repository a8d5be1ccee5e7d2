//! What can be reached from a session.

use serde_json::json;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::probe::{self, Attempt};

use super::planted::{self, GREETING};
use super::with_and_without;
use crate::every_way::{daemon, setup};

/// Has sessions without a network namespace be on the host's network.
const HOST: &str = "network_fallback = \"full\"";

fn tcp(port: u16) -> String {
    format!("connect(socket.AF_INET, ('127.0.0.1', {port}))")
}

#[test]
fn the_hosts_loopback_is_another() {
    let service = tcp(planted::tcp_service());
    let on = daemon();
    probe::check(&on.session(), &[(&service, "ECONNREFUSED")]);
    on.stop_and_check();
    let off = setup().without(&["network"]).config("sandbox", HOST).start();
    let session = off.session();
    assert_eq!(session.info()["network"], "full");
    probe::check(&session, &[(&service, "works")]);
    off.stop_and_check();
}

#[test]
fn without_a_network_namespace_loopback_is_none() {
    let tcp = tcp(planted::tcp_service());
    let udp = "connect(socket.AF_INET, ('127.0.0.1', 9), socket.SOCK_DGRAM)";
    let loopback = json!({"network": "loopback"});
    for layers in [&["network"][..], &["namespaces"]] {
        let daemon = setup().without(layers).start();
        for session in [daemon.session(), daemon.session_with(&loopback)] {
            assert_eq!(session.info()["network"], "none");
            let report = session.layer("network");
            assert_eq!(report["status"], "off");
            assert!(report["detail"].as_str().unwrap().contains("AF_UNIX"), "{report}");
            probe::check(&session, &[(&tcp, "EPERM"), (udp, "EPERM")]);
        }
        // The layer that holds it: without a filter it is the host's, and said to be.
        let open = setup().without(&[layers, &["seccomp"]].concat()).start();
        let session = open.session();
        assert_eq!(session.info()["network"], "full");
        let report = session.layer("network");
        assert!(report["detail"].as_str().unwrap().contains("unrestricted"), "{report}");
        probe::check(&session, &[(&tcp, "works"), (udp, "works")]);
        for daemon in [daemon, open] {
            daemon.stop_and_check();
        }
    }
}

/// seccomp refuses the socket and the namespace has no route, so both are off.
#[test]
fn landlock_alone_refuses_tcp_under_none() {
    if !host::has(&[Requirement::Landlock]) || host::kernel_version() < (6, 7) {
        return; // ABI 4
    }
    let service = tcp(planted::tcp_service());
    let listen = "socket.create_server(('127.0.0.1', 0)).close()";
    let none = json!({"network": "none"});
    for (without, word) in
        [(&["network", "seccomp"][..], "EACCES"), (&["network", "seccomp", "landlock"], "works")]
    {
        let daemon = setup().without(without).start();
        probe::check(&daemon.session_with(&none), &[(&service, word), (listen, word)]);
    }
}

#[test]
fn a_network_that_is_full_is_for_those_the_operator_lets() {
    let service = tcp(planted::tcp_service());
    let full = json!({"network": "full"});
    let strict = daemon();
    let refused = strict.request("POST", "/v1/sessions", Some(&full));
    let problem = refused.expect_problem(422, "invalid_field");
    assert!(problem["detail"].as_str().unwrap().contains("network"), "{problem}");

    let networks = "allowed_networks = [\"none\", \"loopback\", \"full\"]";
    let egress = "passt = \"off\"";
    let open = setup().config("sandbox", networks).config("egress", egress).start();
    let session = open.session_with(&full);
    assert_eq!(session.layer("network")["status"], "off");
    probe::load(&session);
    assert_eq!(Attempt::make(&session, &service).value(), GREETING);
    // And the session beside it is as shut as ever.
    probe::check(&open.session(), &[(&service, "ECONNREFUSED")]);
}

#[test]
fn metadata_services_and_other_hosts_are_unreachable() {
    let daemon = daemon();
    let unreachable = "ENETUNREACH";
    probe::check(
        &daemon.session(),
        &[
            ("connect(socket.AF_INET, ('169.254.169.254', 80))", unreachable),
            ("connect(socket.AF_INET, ('169.254.169.254', 80), socket.SOCK_DGRAM)", unreachable),
            ("connect(socket.AF_INET, ('192.0.2.1', 443))", unreachable),
            ("connect(socket.AF_INET, ('192.0.2.1', 53), socket.SOCK_DGRAM)", unreachable),
            ("connect(socket.AF_INET6, ('fd00:ec2::254', 80))", unreachable),
            ("connect(socket.AF_INET6, ('fe80::1', 80))", "ENETUNREACH|EINVAL"),
        ],
    );
    let names = "import socket\ntry: socket.getaddrinfo('example.com', 80)\n\
                 except socket.gaierror: print('no names')";
    assert_eq!(daemon.session().execute(names).ok().stdout(), "no names\n");
}

#[test]
fn there_is_one_interface_and_it_is_up() {
    let daemon = daemon();
    let session = daemon.session();
    let interfaces = "[line.split(':')[0].strip() for line in list(open('/proc/net/dev'))[2:]]";
    assert_eq!(session.value(interfaces), "['lo']");
    let own = "
import socket, threading
server = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b'own')).start()
socket.create_connection(server.getsockname()).recv(10)";
    assert_eq!(session.value(own), "b'own'");
    // Another session has another loopback, and the same port is free there.
    let port = session.value("server.getsockname()[1]");
    let other = daemon.session();
    let busy = format!("__import__('socket').create_server(('127.0.0.1', {port})).close()");
    assert_eq!(other.execute(&busy).status(), "ok");
}

#[test]
fn abstract_sockets_of_the_host_are_out_of_reach() {
    let name = format!("vivarium-test-{}", std::process::id());
    planted::abstract_service(&name);
    let attack = format!("connect(socket.AF_UNIX, '\\0{name}')");
    // Landlock's scope (ABI 6) is the second lock; both have to be off.
    with_and_without(&["network"], &[(&attack, "ECONNREFUSED")], &[(&attack, "EPERM|works")]);
    let both = ["network", "landlock"];
    with_and_without(&both, &[(&attack, "ECONNREFUSED")], &[(&attack, "works")]);
}
