//! Requests that reach no server.

use std::net::TcpListener;

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, Setup};

use crate::{answer, get, literal, path, session_with};

#[test]
fn session_without_a_network_of_its_own_has_no_ports() {
    let daemon = Setup::default()
        .config("sandbox", "allowed_networks = [\"none\", \"loopback\", \"full\"]")
        .config("egress", "passt = \"off\"")
        .start();
    for network in ["none", "full"] {
        let session = daemon.session_with(&json!({"network": network}));
        let problem = get(&daemon, &session, "/").expect_problem(409, "no_ports");
        assert!(problem["fix"].as_str().unwrap().contains("loopback"), "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(network), "{problem}");
    }
    daemon.stop_and_check();
}

#[test]
fn without_the_network_layer_every_port_is_the_hosts() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let daemon = Setup::default().without_sandbox().start();
    let session = daemon.session_with(&json!({"network": "loopback"}));
    let rest = session.path(&format!("/ports/{port}/"));
    daemon.request("GET", &rest, None).expect_problem(409, "no_ports");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody has connected");
    daemon.stop_and_check();
}

#[test]
fn port_leads_into_its_own_session_only() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let daemon = Daemon::start();
    let code = format!("serve(8000, {})", literal(&answer("own")));
    let (serving, other) = (session_with(&daemon, &code), session_with(&daemon, ""));
    assert_eq!(get(&daemon, &serving, "/").body, b"own");
    get(&daemon, &other, "/").expect_problem(502, "port_closed");
    for session in [&serving, &other] {
        let rest = session.path(&format!("/ports/{port}/"));
        daemon.request("GET", &rest, None).expect_problem(502, "port_closed");
    }
    let vivarium_tests::http::Endpoint::Tcp(api) = daemon.tcp() else { unreachable!() };
    let rest = serving.path(&format!("/ports/{api}/v1/host"));
    daemon.request("GET", &rest, None).expect_problem(502, "port_closed");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nobody has connected");
    daemon.stop_and_check();
}

#[test]
fn what_is_no_port_is_refused() {
    let daemon = crate::DAEMON.hold();
    let session = session_with(&daemon, "");
    for port in ["0", "65536", "-1", "x", "80x", "%30"] {
        let rest = session.path(&format!("/ports/{port}/"));
        let problem = daemon.request("GET", &rest, None).expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], "port", "{port}");
    }
    daemon
        .request("GET", "/v1/sessions/nobody/ports/1/", None)
        .expect_problem(404, "unknown_session");
    daemon.release();
}

/// Answers have the API's origin: a page of one session must not reach another's ports.
#[test]
fn pages_of_other_origins_are_refused() {
    let daemon = Daemon::start();
    let session = session_with(&daemon, &format!("serve(8000, {})", literal(&answer("own"))));
    let from = |site: &str| {
        let headers = [("Sec-Fetch-Site", site)];
        Client::connect(&daemon.tcp()).send("GET", &path(&session, "/"), &headers, None)
    };
    for site in ["none", "same-origin"] {
        assert_eq!(from(site).status, 200, "{site}");
    }
    for site in ["cross-site", "same-site", "unheard-of"] {
        from(site).expect_problem(403, "cross_origin");
    }
    assert_eq!(session.value("len(heads)"), "2");
    daemon.stop_and_check();
}

#[test]
fn silent_listener_is_not_waited_for_forever() {
    let daemon = crate::DAEMON.hold();
    let code = "
listener = socket.create_server(('127.0.0.1', 8000), backlog=0)
filling = [socket.socket() for _ in range(4)]
for one in filling:
    one.setblocking(False)
    one.connect_ex(('127.0.0.1', 8000))";
    let session = session_with(&daemon, code);
    get(&daemon, &session, "/").expect_problem(504, "port_timed_out");
    daemon.release();
}
