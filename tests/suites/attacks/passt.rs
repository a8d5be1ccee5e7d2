//! What a session of network `full` reaches through passt, and what its packet filter keeps it from.
//!
//! Beyond the host every address answers ([`internet`]), so that what does not arrive was refused. The
//! control is the same with every address allowed.

use std::net::TcpListener;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::internet::{self, GREETING, HOST_V4, HOST_V6, PUBLIC_V4, PUBLIC_V6};
use vivarium_tests::{Daemon, Session};

use super::planted;
use crate::every_way::setup;

/// One address of every class that is refused, and its neighbours where they are too.
const REFUSED: [&str; 34] = [
    "0.1.2.3",
    "10.0.0.1",
    "10.255.0.53",
    "100.64.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.31.196.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "240.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:2::1",
    "2001:db8::1",
    "2002:a00:1::1",
    "2620:4f:8000::1",
    "3fff::1",
    "4000::1",
    "8000::1",
    "fc00::1",
    "fd00:ec2::254",
    "fdd3:7ab1:5e51::1",
    "fec0::1",
    "::a00:1",
];

/// What Python needs to try them: `tcp(address)` and `udp(address)` give what came of it.
const TRIES: &str = "
import errno, socket, struct
def family(address):
    return socket.AF_INET6 if ':' in address else socket.AF_INET
def tell(attempt):
    try:
        return attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, repr(error))
def tcp(address, port=80):
    def attempt():
        with socket.create_connection((address, port), 20) as s:
            return s.recv(100).decode()
    return tell(attempt)
def udp(address, port=123, prepare=lambda s: None, family_=None):
    def attempt():
        with socket.socket(family_ or family(address), socket.SOCK_DGRAM) as s:
            prepare(s)
            s.sendto(b'x', (address, port))
            return 'sent'
    return tell(attempt)
def bound(s):
    s.setsockopt(socket.SOL_SOCKET, 25, b'passt0')  # SO_BINDTODEVICE
def packet_info(address):
    def attempt():
        with socket.socket(family(address), socket.SOCK_DGRAM) as s:
            index = socket.if_nametoindex('passt0')
            if ':' in address:
                info = (socket.IPPROTO_IPV6, 50, bytes(16) + struct.pack('@I', index))
            else:
                info = (socket.IPPROTO_IP, 8, struct.pack('@I8x', index))
            s.sendmsg([b'x'], [info], 0, (address, 123))
            return 'sent'
    return tell(attempt)
def routed(address, by):
    hops = bytes([131, 7, 4]) + socket.inet_aton(by) + b'\\0'  # loose source route, RFC 791
    return udp(address, prepare=lambda s: s.setsockopt(socket.IPPROTO_IP, 4, hops))
def begin(address, port):
    s = socket.socket(family(address))
    s.setblocking(False)
    s.connect_ex((address, port))
    return s
def unrouted(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)
";

fn daemon(egress: &str) -> Daemon {
    let networks = "allowed_networks = [\"none\", \"loopback\", \"full\"]";
    let egress = format!("passt = \"on\"\n{egress}");
    setup().config("sandbox", networks).config("egress", &egress).start()
}

fn session(daemon: &Daemon) -> Session<'_> {
    let session = daemon.session_with(&json!({"network": "full"}));
    assert_eq!(session.execute(TRIES).status(), "ok");
    session
}

/// The values of these expressions, as JSON has them.
fn values(session: &Session<'_>, expressions: &str) -> Value {
    session.execute(&format!("import json; print(json.dumps({expressions}))")).ok().printed_json()
}

fn each(session: &Session<'_>, function: &str, addresses: &[&str]) -> Vec<(String, String)> {
    let answers = values(session, &format!("[{function}(a) for a in {addresses:?}]"));
    let answers = answers.as_array().unwrap().iter();
    let answers = answers.map(|answer| answer.as_str().unwrap().to_owned());
    addresses.iter().map(|address| (*address).to_owned()).zip(answers).collect()
}

#[track_caller]
fn all_are(answers: Vec<(String, String)>, expected: &str) {
    let wrong: Vec<_> = answers.into_iter().filter(|(_, answer)| answer != expected).collect();
    assert!(wrong.is_empty(), "not {expected:?}: {wrong:?}");
}

#[test]
fn the_internet_is_reached_and_nothing_else() {
    if !host::has(&[Requirement::Passt]) {
        return;
    }
    internet::enter();
    let service = planted::tcp_service();
    let daemon = daemon("");
    let session = session(&daemon);
    let report = session.layer("network");
    assert_eq!(report["status"], "enforced", "{report}");
    assert!(report["detail"].as_str().unwrap().contains("each read back"), "{report}");
    all_are(each(&session, "tcp", &[PUBLIC_V4, PUBLIC_V6]), GREETING);
    // A connection is refused at once, and what has none is not sent.
    all_are(each(&session, "tcp", &REFUSED), "ECONNREFUSED");
    all_are(each(&session, "udp", &REFUSED), "EPERM");
    // The host's own addresses and its loopback, by any name of it.
    let own = [HOST_V4, HOST_V6, "192.0.0.1", "192.0.0.2", "127.0.0.1", "::1", "fdd3:7ab1:5e51::1"];
    for address in own {
        let answer = values(&session, &format!("tcp({address:?}, {service})"));
        assert_eq!(answer, "ECONNREFUSED", "{address}");
    }
    // Groups, and all hosts of a link. Even the kernel's own reports to groups are not sent.
    all_are(each(&session, "udp", &["224.0.0.1", "239.255.255.250", "ff0e::1"]), "EPERM");
    let addresses = "sorted({l.split(':')[0].strip() for l in list(open('/proc/net/dev'))[2:]})";
    assert_eq!(session.value(addresses), "['lo', 'passt0']");
    assert_eq!(daemon.session().layer("network")["detail"], "own namespace, lo only, up");
    daemon.stop_and_check();
}

#[test]
fn no_option_of_a_socket_leads_past_the_filter() {
    // A socket is the same however its kernel started.
    if crate::START_MODE.has_template() || !host::has(&[Requirement::Passt]) {
        return;
    }
    internet::enter();
    let daemon = daemon("");
    let session = session(&daemon);
    let refused = ["10.0.0.1", "169.254.169.254", HOST_V4, "fd00:ec2::254", HOST_V6];
    for way in ["lambda a: udp(a, prepare=bound)", "packet_info", "lambda a: udp(a, 53)"] {
        all_are(each(&session, &format!("({way})"), &refused), "EPERM");
    }
    for way in ["lambda a: udp(a, prepare=bound)", "packet_info"] {
        all_are(each(&session, &format!("({way})"), &[PUBLIC_V4, PUBLIC_V6]), "sent");
    }
    // IPv4 out of an IPv6 socket.
    let mapped = "lambda a: udp('::ffff:' + a, family_=socket.AF_INET6)";
    all_are(each(&session, &format!("({mapped})"), &["10.0.0.1", HOST_V4]), "EPERM");
    all_are(each(&session, &format!("({mapped})"), &[PUBLIC_V4]), "sent");
    all_are(each(&session, "tcp", &["::ffff:10.0.0.1", "::ffff:169.254.169.254"]), "ECONNREFUSED");
    // A source route, there and through there: no packet with options leaves, wherever it goes.
    let routed = format!("[routed('{PUBLIC_V4}', '10.0.0.1'), routed('10.0.0.1', '{PUBLIC_V4}')]");
    assert_eq!(values(&session, &routed), json!(["EPERM", "EPERM"]));
    // As if it were on the link.
    let direct = "udp('192.0.0.3', 54, unrouted), udp('192.0.0.3', 123), tcp('192.0.0.3', 53)";
    assert_eq!(values(&session, &format!("[{direct}]")), json!(["EPERM", "EPERM", "ECONNREFUSED"]));
    // The filter itself, and sockets that write headers of their own.
    let sockets = "[tell(lambda: socket.socket(*a).close()) for a in \
                   [(16, 3, 12), (16, 3, 0), (2, 3, 255), (10, 3, 255), (17, 3, 768)]]";
    let answers = values(&session, sockets);
    assert_eq!(answers, json!(["EPERM", "EPERM", "EPERM", "EPERM", "EPERM"]));
    // One resolver, which leads to the host's.
    let named = "socket.getaddrinfo('any.example', 80, socket.AF_INET)[0][4][0]";
    assert_eq!(session.value(named), format!("'{PUBLIC_V4}'"));
    daemon.stop_and_check();
}

/// The control: with every address allowed the same attempts arrive, so it is the filter that refuses
/// them. What is the host's loopback is still nobody's.
#[test]
fn what_the_operator_allows_is_reached() {
    // A socket is the same however its kernel started.
    if crate::START_MODE.has_template() || !host::has(&[Requirement::Passt]) {
        return;
    }
    internet::enter();
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let daemon = daemon("allow_addresses = [\"0.0.0.0/0\", \"::/0\"]");
    let session = session(&daemon);
    // Those of the session's own link, and those that the host itself does not send to.
    let unsent = ["192.0.0.1", "fdd3:7ab1:5e51::1", "::a00:1"];
    let sent: Vec<_> = REFUSED.into_iter().filter(|address| !unsent.contains(address)).collect();
    all_are(each(&session, "tcp", &sent), GREETING);
    all_are(each(&session, "(lambda a: udp(a, prepare=bound))", &sent), "sent");
    // Sent before the next connection, which is answered: by then these would have been.
    let begun = format!(
        "begun = [begin(a, {port}) for a in ('192.0.0.1', '192.0.0.2', '127.0.0.1', 'fdd3:7ab1:5e51::1')]"
    );
    assert_eq!(session.execute(&begun).status(), "ok");
    all_are(each(&session, "tcp", &[PUBLIC_V4, PUBLIC_V6]), GREETING);
    service.set_nonblocking(true).unwrap();
    assert!(service.accept().is_err(), "nobody has connected");
    daemon.stop_and_check();
}
