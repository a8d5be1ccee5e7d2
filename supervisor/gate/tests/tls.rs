//! TLS through the gate: the name within it, and secrets that go out and never in.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod harness;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use harness::{Gate, rules, tunnel};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use vivarium_egress::{Decision, Reason, Rules, Secret};
use vivarium_packages::{HOST, Login, Source, Url};
use vivarium_tests::tls::{authority, server};

const PLACEHOLDER: &str = "viv-placeholder-1";
const VALUE: &str = "sk-the-real-value";

/// Sends a request in TLS through a tunnel; `None` if there is no TLS.
fn ask(
    gate: SocketAddr,
    place: &str,
    sni: &str,
    trusted_pem: &str,
    request: &str,
) -> Option<String> {
    let (stream, answer) = tunnel(gate, place);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let mut stream = tls(stream, sni, trusted_pem);
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = Vec::new();
    stream.read_to_end(&mut text).map(drop).unwrap_or_default();
    (!text.is_empty()).then(|| String::from_utf8(text).unwrap())
}

fn tls(stream: TcpStream, sni: &str, pem: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(sni.to_owned()).unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

fn request(place: &str, method: &str) -> String {
    format!(
        "{method} /{PLACEHOLDER} HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {PLACEHOLDER}\r\n\
         X-Other: {PLACEHOLDER}\r\n\r\n"
    )
}

#[test]
fn the_name_within_tls_is_the_one_asked_for() {
    let (outside, issuer) = authority();
    let gate = Gate::start();
    let (port, got) = server(&issuer, "a.example");
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{port}");
    let inside = gate.open(1, &rules(&[&place]), None);
    let text = request(&place, "GET");
    let pem = &outside.certificate_pem;
    assert!(ask(inside, &place, "a.example", pem, &text).unwrap().ends_with("hello"));
    assert_eq!(gate.next_decided().decision, Decision::Allowed);
    let reached = got.lock().unwrap().len();
    assert_eq!(ask(inside, &place, "b.example", pem, &text), None);
    assert_eq!(gate.next_decided().reason, Reason::SniMismatch);
    // A name is no address, and none is sent for one.
    assert_eq!(ask(inside, &place, "127.0.0.1", pem, &text), None);
    assert_eq!(gate.next_decided().reason, Reason::SniMissing);
    assert_eq!(got.lock().unwrap().len(), reached);
    gate.end();
}

fn secret_rules(place: &str, methods: &str) -> Rules {
    let mut rules = rules(&[&format!("{methods}{place}")]);
    rules.secrets = vec![Secret {
        placeholder: PLACEHOLDER.to_owned(),
        value: VALUE.to_owned(),
        hosts: vec!["a.example".parse().unwrap()],
        header: "Authorization".to_owned(),
    }];
    rules
}

#[test]
fn a_secret_reaches_its_host_and_never_the_session() {
    let (outside, issuer) = authority();
    let (own, _) = authority();
    let gate = Gate::start_trusting(&outside.certificate_pem);
    let (port, got) = server(&issuer, "a.example");
    for name in ["a.example", "b.example"] {
        gate.zone.put(name, &[&["127.0.0.1"]]);
    }
    let place = format!("a.example:{port}");
    let rules = secret_rules(&place, "GET ");
    let (_, answer) = gate.try_open(9, &rules, None);
    assert!(!format!("{answer:?}").contains(VALUE) && format!("{answer:?}").contains("authority"));
    let inside = gate.open(1, &rules, Some(own.clone()));
    let pem = &own.certificate_pem;
    let answer = ask(inside, &place, "a.example", pem, &request(&place, "GET")).unwrap();
    assert!(answer.ends_with("hello") && !answer.contains(VALUE), "{answer}");
    let decided = gate.next_decided();
    assert_eq!((decided.decision, decided.method.as_deref()), (Decision::Allowed, Some("GET")));
    let text = got.lock().unwrap().concat();
    assert!(text.contains(&format!("Authorization: Bearer {VALUE}\r\n")), "{text}");
    assert!(text.contains(&format!("GET /{PLACEHOLDER} ")) && text.matches(VALUE).count() == 1);
    // Within TLS that ends here, methods and hosts are seen.
    let refused = |text: &str, reason: Reason| {
        let answer = ask(inside, &place, "a.example", pem, text).unwrap();
        assert!(!answer.contains(VALUE), "{answer}");
        assert_eq!(gate.next_decided().reason, reason);
    };
    refused(&request(&place, "DELETE"), Reason::MethodNotListed);
    refused(&request("b.example", "GET"), Reason::BadRequest);
    assert_eq!(got.lock().unwrap().len(), 1);
    gate.end();
}

#[test]
fn a_secret_goes_to_nobody_who_does_not_prove_to_be_its_host() {
    let (_, stranger) = authority();
    let (trusted, _) = authority();
    let (own, _) = authority();
    let gate = Gate::start_trusting(&trusted.certificate_pem);
    let (port, got) = server(&stranger, "a.example");
    gate.zone.put("a.example", &[&["127.0.0.1"]]);
    let place = format!("a.example:{port}");
    let inside = gate.open(1, &secret_rules(&place, ""), Some(own.clone()));
    let text = request(&place, "GET");
    let answer = ask(inside, &place, "a.example", &own.certificate_pem, &text).unwrap();
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(got.lock().unwrap().len(), 0);
    // In the clear it does not go either.
    let (mut stream, _) = tunnel(inside, &place);
    stream.write_all(text.as_bytes()).unwrap();
    stream.read_to_end(&mut Vec::new()).map(drop).unwrap_or_default();
    assert!(!got.lock().unwrap().concat().contains(VALUE));
    gate.end();
}

#[test]
fn a_login_reaches_its_index_alone_and_only_if_that_proves_to_be_it() {
    let (outside, issuer) = authority();
    let (_, stranger) = authority();
    let gate = Gate::start_trusting(&outside.certificate_pem);
    let (port, got) = server(&issuer, "index.example");
    let (false_port, false_got) = server(&stranger, "index.example");
    gate.zone.put("index.example", &[&["127.0.0.1"]]);
    let page = |session: u64, port: u16| {
        let mut rules = rules(&[]);
        let url = format!("https://index.example:{port}/simple");
        rules.packages = Some(Source {
            index_url: Some(Url::parse(&url).unwrap()),
            login: Login::parse("user:s3cret"),
            ..Source::default()
        });
        assert!(!format!("{rules:?}").contains("s3cret"));
        let inside = gate.open(session, &rules, None);
        harness::ask(
            inside,
            format!("GET http://{HOST}/simple/foo/ HTTP/1.1\r\nHost: {HOST}\r\n\r\n"),
        )
    };
    let answer = page(1, port);
    assert!(answer.starts_with("HTTP/1.1 200 ") && !answer.contains("s3cret"), "{answer}");
    let text = got.lock().unwrap().concat();
    assert!(text.contains("authorization: Basic dXNlcjpzM2NyZXQ=\r\n"), "{text}");
    let answer = page(2, false_port);
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("certificate"), "{answer}");
    assert_eq!(false_got.lock().unwrap().len(), 0);
    gate.end();
}
