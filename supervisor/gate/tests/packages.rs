//! The package index of the gate: what sessions, other tenants and an index upstream may try.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod harness;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use harness::packages::{Bed, CONTENT, Upstream, WHEEL, answer, page, until_gone};
use harness::{Gate, ask, rules, tunnel};
use vivarium_egress::{AddressClass, Decision, FromGate, Reason};
use vivarium_packages::hash::Hash;
use vivarium_packages::{HOST, Source};

fn get(path: &str) -> String {
    format!("GET http://{HOST}{path} HTTP/1.1\r\nHost: {HOST}\r\nAccept: text/html\r\n\r\n")
}

fn wheel() -> String {
    get(&format!("/files/foo/{WHEEL}"))
}

#[track_caller]
fn has_status(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
}

#[test]
fn a_wheel_is_fetched_verified_kept_and_told_of() {
    let (bed, upstream) = (Bed::start(64, &[]), Upstream::good());
    let inside = bed.open("a", 1, upstream.source());
    let listed = ask(inside, get("/simple/Foo/"));
    assert!(listed.contains(&format!("/files/foo/{WHEEL}#sha256=")), "{listed}");
    let served = bed.gate.next_decided();
    assert_eq!(
        (served.destination.as_str(), served.port, served.decision),
        (HOST, 80, Decision::Allowed)
    );
    assert_eq!((served.reason, served.address), (Reason::Packages, None));
    let fetched = bed.gate.next_decided();
    assert_eq!((fetched.destination.as_str(), fetched.port), ("index.example", upstream.port));
    assert_eq!((fetched.decision, fetched.reason), (Decision::Allowed, Reason::Packages));
    assert_eq!(fetched.address, Some("127.0.0.1".parse().unwrap()));
    for _ in 0..2 {
        let answer = ask(inside, wheel());
        has_status(&answer, 200);
        assert!(answer.ends_with("\r\n\r\nwhat a wheel has"), "{answer}");
    }
    assert_eq!(upstream.asked(), ["/simple/foo/".to_owned(), format!("/files/{WHEEL}")]);
    assert_eq!(bed.kept().len(), 1);
    let head = ask(inside, wheel().replacen("GET", "HEAD", 1));
    assert!(head.contains("Content-Length: 16\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    // Bytes are counted, those of a fetched file once.
    let mut bytes = Vec::new();
    while bytes.len() < 4 {
        if let FromGate::Done { bytes_in, cut: None, .. } = bed.gate.next() {
            bytes.push(bytes_in);
        }
    }
    assert_eq!(bytes[1..], [16, 16, 16]);
}

#[test]
fn the_name_leads_to_the_index_alone_by_plain_requests() {
    let (bed, upstream) = (Bed::start(64, &[]), Upstream::good());
    // Also where a list has the name, and a resolver an address for it.
    bed.gate.zone.put(HOST, &[&["127.0.0.1"]]);
    let mut rules = rules(&[HOST, &format!("{HOST}:{}", upstream.port), "*.internal"]);
    let without = bed.open_with("a", 1, &rules);
    rules.packages = Some(upstream.source());
    let inside = bed.open_with("a", 2, &rules);
    has_status(&ask(inside, get("/simple/foo/")), 200);
    let refused = |from: SocketAddr, request: String, reason: Reason| {
        let answer = ask(from, request);
        assert!(answer.contains("by egress gate: "), "{answer}");
        loop {
            let decided = bed.gate.next_decided();
            if decided.decision == Decision::Refused {
                return assert_eq!(decided.reason, reason, "{answer}");
            }
        }
    };
    refused(without, get("/simple/foo/"), Reason::NotListed);
    refused(
        inside,
        get("/simple/foo/").replace(HOST, &format!("{HOST}:{}", upstream.port)),
        Reason::PortNotListed,
    );
    refused(inside, get("/").replacen("GET", "POST", 1), Reason::MethodNotListed);
    refused(inside, get("/").replace("Accept: text/html", "Content-Length: 1"), Reason::BadRequest);
    refused(
        inside,
        get("/").replace(&format!("Host: {HOST}"), "Host: a.example"),
        Reason::BadRequest,
    );
    for place in [format!("{HOST}:80"), format!("{}.:80", HOST.to_uppercase())] {
        let (_, answer) = tunnel(inside, &place);
        has_status(&answer, 400);
    }
    has_status(&tunnel(inside, &format!("{HOST}:443")).1, 403);
    let mut socks = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(HOST.len()).unwrap()];
    socks.extend(HOST.bytes());
    socks.extend([0, 80]);
    assert!(ask(inside, &socks).starts_with("\x05\0\x05\x01"));
    assert_eq!(upstream.asked().len(), 1);
}

#[test]
fn a_file_that_is_not_what_the_page_says_is_not_served_and_not_kept() {
    let bed = Bed::start(64, &[]);
    let upstream = Upstream::with_wheel(CONTENT, format!("#{}", Hash::sha256(b"another")));
    let inside = bed.open("a", 1, upstream.source());
    let answer = ask(inside, wheel());
    assert!(answer.starts_with("HTTP/1.1 502 a file has not the hash"), "{answer}");
    assert!(!answer.contains("what a wheel has"));
    assert_eq!(bed.kept(), Vec::<PathBuf>::new());
}

#[test]
fn what_one_tenant_has_another_neither_sees_nor_changes() {
    let bed = Bed::start(64, &[]);
    let (own, hostile) = (
        Upstream::good(),
        Upstream::with_wheel(b"hostile", format!("#{}", Hash::sha256(b"hostile"))),
    );
    let (a, b) = (bed.open("a", 1, own.source()), bed.open("b", 2, hostile.source()));
    // Of the same names, at once.
    let [first, second] = [a, b].map(|inside| thread::spawn(move || ask(inside, wheel())));
    assert!(first.join().unwrap().ends_with("what a wheel has"));
    assert!(second.join().unwrap().ends_with("hostile"));
    assert!(ask(a, wheel()).ends_with("what a wheel has"));
    // The same index, and what is cached of another tenant is asked for again.
    let c = bed.open("c", 3, own.source());
    assert!(ask(c, wheel()).ends_with("what a wheel has"));
    let files = own.asked().iter().filter(|path| path.contains("/files/")).count();
    assert_eq!((files, bed.kept().len()), (2, 3));
    // A second session of the tenant's profits.
    let again = bed.open("a", 4, own.source());
    assert!(ask(again, wheel()).ends_with("what a wheel has"));
    assert_eq!(own.asked().len(), 4);
}

#[test]
fn an_index_leads_to_no_address_of_the_operators_but_its_own() {
    let bed = Bed::start(64, &[]);
    let secret = Upstream::start(|_, stream| answer(stream, "", b"secret"));
    let port = secret.port;
    let upstream = Upstream::start(move |path, stream| match path {
        "/simple/foo/" => {
            page(stream, &format!("<a href=\"http://index.example:{port}/{WHEEL}\">x</a>"))
        }
        "/simple/bar/" => page(stream, "<a href=\"http://169.254.169.254/bar-1.0.tar.gz\">x</a>"),
        "/simple/baz/" => page(stream, "<a href=\"/files/baz-1.0.tar.gz\">x</a>"),
        _ => write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/\r\nContent-Length: 0\r\n\r\n"
        ),
    });
    let inside = bed.open("a", 1, upstream.source());
    for (path, class) in [
        (format!("/files/foo/{WHEEL}"), AddressClass::Loopback),
        ("/files/bar/bar-1.0.tar.gz".to_owned(), AddressClass::LinkLocal),
        ("/files/baz/baz-1.0.tar.gz".to_owned(), AddressClass::Loopback),
        ("/simple/elsewhere/".to_owned(), AddressClass::Loopback),
    ] {
        let answer = ask(inside, get(&path));
        has_status(&answer, 502);
        assert!(!answer.contains("secret"), "{answer}");
        loop {
            let decided = bed.next_upstream();
            if decided.decision == Decision::Refused {
                assert_eq!(decided.reason, Reason::Address(class), "{path}");
                break;
            }
        }
    }
    assert_eq!(secret.asked(), Vec::<String>::new());
    // The control: what the session's own list has, the index may lead to.
    let mut rules = rules(&[&format!("index.example:{port}")]);
    rules.packages = Some(upstream.source());
    let listed = bed.open_with("a", 2, &rules);
    assert!(ask(listed, wheel()).ends_with("secret"));
    // Without leave, nor is a private index itself.
    rules.allow_addresses.clear();
    has_status(&ask(bed.open_with("b", 3, &rules), get("/simple/foo/")), 502);
}

#[test]
fn an_index_that_is_slow_endless_or_lies_ends_and_leaves_nothing() {
    let bed = Bed::start(4, &[]);
    let upstream = Upstream::start(|path, stream| {
        let zeros = [b'0'; 64 << 10];
        match path {
            "/simple/silent/" => until_gone(stream),
            "/simple/slow/" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n<a")?;
                until_gone(stream);
            }
            "/simple/short/" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n<a>")?
            }
            "/simple/babble/" => stream.write_all(b"\0\0\0\0 not HTTP \r\n\r\n")?,
            "/simple/foo/" => {
                let hash = Hash::sha256(CONTENT);
                return page(stream, &format!("<a href=\"/files/{WHEEL}#{hash}\">x</a>"));
            }
            // A head, a page and a file without end.
            "/simple/header/" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nX: ")?;
                loop {
                    stream.write_all(&zeros)?;
                }
            }
            _ => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
                loop {
                    stream.write_all(&zeros)?;
                }
            }
        }
        Ok(())
    });
    let inside = bed.open("a", 1, upstream.source());
    let began = Instant::now();
    for project in ["silent", "slow", "short", "babble", "header", "endless"] {
        has_status(&ask(inside, get(&format!("/simple/{project}/"))), 502);
    }
    has_status(&ask(inside, wheel()), 502);
    assert_eq!(bed.kept(), Vec::<PathBuf>::new());
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // Meanwhile and after, others are served.
    let good = Upstream::good();
    assert!(ask(bed.open("b", 2, good.source()), wheel()).ends_with("what a wheel has"));
}

#[test]
fn hostile_paths_name_nothing_of_the_gates() {
    let wheels = tempfile::tempdir().unwrap();
    fs::write(wheels.path().join(WHEEL), CONTENT).unwrap();
    fs::write(wheels.path().join("secret.txt"), "secret").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", wheels.path().join("link-1.0.tar.gz")).unwrap();
    let directory = wheels.path().display().to_string();
    let (bed, upstream) = (Bed::start(64, &["--find-links", &directory]), Upstream::good());
    let source = Source { find_links: vec![wheels.path().to_owned()], ..upstream.source() };
    let inside = bed.open("a", 1, source);
    assert!(ask(inside, wheel()).ends_with("what a wheel has"));
    assert_eq!(upstream.asked(), Vec::<String>::new(), "a project of the operator's");
    for path in [
        "/files/foo/../../etc/passwd",
        "/files/foo/..%2f..%2f..%2fetc%2fpasswd",
        "/files/link/link-1.0.tar.gz",
        "/files/foo/secret.txt",
        "/files/secret/secret.txt",
        "/files/../lock",
        "/../../etc/passwd",
        "/simple/..%00/",
        "/simple/%2e%2e/",
    ] {
        let answer = ask(inside, get(path));
        let status = answer.split(' ').nth(1).unwrap();
        assert!(matches!(status, "400" | "404"), "{path}: {answer}");
        assert!(
            !answer.contains("root:") && !answer.contains("\r\n\r\nsecret"),
            "{path}: {answer}"
        );
    }
}

#[test]
fn what_a_gate_can_not_have_it_says_and_goes_without() {
    let upstream = Upstream::good();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let cache = file.display().to_string();
    let gate = Gate::start_with("", &["--cache-dir", &cache, "--find-links", "/nonexistent"]);
    let warned = |gate: &Gate| {
        let FromGate::Warning { what } = gate.next() else { panic!("no warning") };
        what
    };
    let said = warned(&gate);
    assert!(said.contains("no cache") && said.contains(&cache), "{said}");
    let said = warned(&gate);
    assert!(said.contains("/nonexistent"), "{said}");
    gate.zone.put("index.example", &[&["127.0.0.1"]]);
    let mut rules = rules(&[]);
    rules.packages = Some(upstream.source());
    let inside = gate.open(1, &rules, None);
    has_status(&ask(inside, get("/simple/foo/")), 200);
    assert!(ask(inside, wheel()).starts_with("HTTP/1.1 502 the gate has no cache"));
    // What is to be in a directory that can not be read is not looked for elsewhere.
    let source = Source { find_links: vec!["/nonexistent".into()], ..upstream.source() };
    rules.packages = Some(source);
    has_status(&ask(gate.open(2, &rules, None), get("/simple/foo/")), 502);
    // A cache has one gate.
    let bed = Bed::start(64, &[]);
    let taken = bed.cache.path().display().to_string();
    let said = warned(&Gate::start_with("", &["--cache-dir", &taken]));
    assert!(said.contains("another gate uses it"), "{said}");
}

#[test]
fn a_sessions_bytes_bound_what_it_installs() {
    let (bed, upstream) = (Bed::start(64, &[]), Upstream::good());
    let mut rules = rules(&[]);
    rules.packages = Some(upstream.source());
    rules.limits.max_bytes = Some(300);
    let inside = bed.open_with("a", 1, &rules);
    // The page is longer than what is left after it.
    has_status(&ask(inside, get("/simple/foo/")), 200);
    assert!(!ask(inside, get("/simple/foo/")).contains("sha256"));
}
