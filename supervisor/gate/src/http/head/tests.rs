use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Head, HeadError> {
    let bytes = text.as_bytes();
    let end = find_end(bytes, 0)?.expect("the end of a head");
    parse(&bytes[..end])
}

fn written(text: &str) -> String {
    let head = read(text).unwrap();
    let (host, port, path) = match &head.target {
        Target::Absolute(host, port, path) => (host, *port, path),
        other => panic!("{other:?}"),
    };
    head.check_host(host, port, 80).unwrap();
    let bytes = head.for_destination(path, host, (port != 80).then_some(port), [].iter()).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_request_goes_on_without_what_is_the_proxys() {
    let out = written(
        "GET http://Example.com/a?b=c HTTP/1.1\r\nHost: example.com\r\nProxy-Authorization: Basic x\r\n\
         Proxy-Connection: keep-alive\r\nConnection: close, X-Mine\r\nX-Mine: 1\r\nKeep-Alive: 5\r\n\
         TE: trailers\r\nUpgrade: websocket\r\nX-Kept: yes\r\n\r\n",
    );
    assert_eq!(
        out,
        "GET /a?b=c HTTP/1.1\r\nHost: example.com\r\nX-Kept: yes\r\nConnection: close\r\n\r\n"
    );
    let out = written("POST http://a.com:8080 HTTP/1.0\r\nContent-Length: 3\r\n\r\n");
    assert_eq!(
        out,
        "POST / HTTP/1.1\r\nHost: a.com:8080\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn what_two_readers_could_understand_differently_is_refused() {
    use HeadError::{Folded, Host, Length, LineEnd, Malformed};
    for (headers, error) in [
        ("Host: a.com\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n", Length),
        ("Host: a.com\r\nContent-Length: 1\r\nContent-Length: 1\r\n", Length),
        ("Host: a.com\r\nContent-Length: 1, 1\r\n", Length),
        ("Host: a.com\r\nContent-Length: +1\r\n", Length),
        ("Host: a.com\r\nContent-Length: 0x1\r\n", Length),
        ("Host: a.com\r\nContent-Length:\r\n", Length),
        ("Host: a.com\r\nTransfer-Encoding: gzip, chunked\r\n", Length),
        ("Host: a.com\r\nTransfer-Encoding: xchunked\r\n", Length),
        ("Host: a.com\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Length),
        ("Host: a.com\r\nTransfer-Encoding : chunked\r\n", Malformed),
        ("Host: a.com\r\nX: a\r\n b\r\n", Folded),
        ("Host: a.com\r\nX: a\n", LineEnd),
        ("Host: a.com\nX: a\r\n", LineEnd),
        ("Host: a.com\r\nX: a\rb\r\n", LineEnd),
        ("Host: a.com\r\r\nX: a\r\n", LineEnd),
        ("Host: a.com\r\nX: a\0b\r\n", LineEnd),
        ("Host: a.com\r\nHost: a.com\r\n", Host),
        ("Host: a.com\r\nhost: b.com\r\n", Host),
        ("X: a\r\n", Host),
        ("Host: a.com\r\nX\r\n", Malformed),
        ("Host: a.com\r\n: x\r\n", Malformed),
        ("Host: a.com\r\nX Y: z\r\n", Malformed),
    ] {
        let found = read(&format!("GET http://a.com/ HTTP/1.1\r\n{headers}\r\n"));
        assert_eq!(found, Err(error), "{headers:?}");
    }
    assert_eq!(
        read("POST http://a.com/ HTTP/1.0\r\nHost: a.com\r\nTransfer-Encoding: chunked\r\n\r\n"),
        Err(Length)
    );
    assert_eq!(
        read("CONNECT a.com:443 HTTP/1.1\r\nHost: a.com\r\nContent-Length: 5\r\n\r\n"),
        Err(Length)
    );
}

#[test]
fn a_host_that_is_not_the_target_is_refused() {
    let host = "a.com".parse().unwrap();
    let check = |said: &str, port| {
        let text = format!("GET http://a.com/ HTTP/1.1\r\nHost: {said}\r\n\r\n");
        read(&text).unwrap().check_host(&host, port, 80)
    };
    assert_eq!([check("a.com", 80), check("A.com.:80", 80), check("a.com:81", 81)], [Ok(()); 3]);
    for (said, port) in [
        ("b.com", 80),
        ("a.com:81", 80),
        ("a.com", 81),
        ("", 80),
        ("a.com, b.com", 80),
        ("a.com@b.com", 80),
        ("user@a.com", 80),
        ("a.com/", 80),
        ("a.com:80:80", 80),
    ] {
        assert_eq!(check(said, port), Err(HeadError::Host), "{said}");
    }
}

#[test]
fn targets_are_read_in_one_way() {
    let target = |method: &str, target: &str| {
        read(&format!("{method} {target} HTTP/1.1\r\nHost: a.com\r\n\r\n")).map(|head| head.target)
    };
    let host = |text: &str| text.parse::<Host>().unwrap();
    assert_eq!(target("CONNECT", "a.com:443"), Ok(Target::Authority(host("a.com"), 443)));
    assert_eq!(target("CONNECT", "[::1]:443"), Ok(Target::Authority(host("::1"), 443)));
    let path = |path: &str| path.to_owned();
    assert_eq!(target("GET", "/x"), Ok(Target::Path(path("/x"))));
    assert_eq!(
        target("GET", "HTTP://A.com?x"),
        Ok(Target::Absolute(host("a.com"), 80, path("/?x")))
    );
    for (method, text) in [
        ("CONNECT", "a.com"),
        ("CONNECT", "a.com:0"),
        ("CONNECT", "a.com:+1"),
        ("CONNECT", ":443"),
        ("CONNECT", "::1:443"),
        ("CONNECT", "http://a.com:443"),
        ("CONNECT", "a.com:443/"),
        ("GET", "https://a.com/"),
        ("GET", "ftp://a.com/"),
        ("GET", "a.com:80"),
        ("OPTIONS", "*"),
        ("GET", "http://user@a.com/"),
        ("GET", "http://a.com@b.com/"),
        ("GET", "http://a.com/#x"),
        ("GET", "http:///x"),
        ("GET", "http://a.com:/"),
        ("GET", "http://127.1/"),
        ("GET", "http://a.com\\@b.com/"),
    ] {
        assert_eq!(target(method, text), Err(HeadError::Target), "{method} {text}");
    }
    assert_eq!(target("TRACE", "http://a.com/"), Err(HeadError::Method));
}

#[test]
fn only_its_header_gets_a_secret() {
    let secret = |placeholder: &str, value: &str| Secret {
        placeholder: placeholder.to_owned(),
        value: value.to_owned(),
        hosts: vec!["a.com".parse().unwrap()],
        header: "authorization".to_owned(),
    };
    let secrets = [secret("PLACEHOLDER-1", "one PLACEHOLDER-2"), secret("PLACEHOLDER-2", "two")];
    let head = read(
        "GET /PLACEHOLDER-1 HTTP/1.1\r\nHost: a.com\r\nX: PLACEHOLDER-1\r\n\
         Authorization: Bearer PLACEHOLDER-2 PLACEHOLDER-1 PLACEHOLDER-3\r\n\r\n",
    )
    .unwrap();
    let out = head.for_destination("/", &"a.com".parse().unwrap(), None, secrets.iter()).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "GET / HTTP/1.1\r\nHost: a.com\r\nX: PLACEHOLDER-1\r\n\
         Authorization: Bearer two one PLACEHOLDER-2 PLACEHOLDER-3\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn a_head_that_secrets_make_too_long_is_not_put_together() {
    let secret = Secret {
        placeholder: "PLACEHOLDER-1".to_owned(),
        value: "v".repeat(8192),
        hosts: vec!["a.com".parse().unwrap()],
        header: "authorization".to_owned(),
    };
    let written = |times: usize| {
        let value = "PLACEHOLDER-1".repeat(times);
        let text = format!("GET / HTTP/1.1\r\nHost: a.com\r\nAuthorization: {value}\r\n\r\n");
        let host = "a.com".parse().unwrap();
        read(&text).unwrap().for_destination("/", &host, None, [&secret].into_iter())
    };
    assert!(written(10).unwrap().len() > 81_920);
    assert_eq!(written(4_000), Err(HeadError::TooLong));
}

#[test]
fn a_head_without_an_end_is_refused() {
    let long = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; MAX_HEAD_BYTES]].concat();
    assert_eq!(find_end(&long, 0), Err(HeadError::TooLong));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: a\r\n".repeat(101));
    assert_eq!(read(&many), Err(HeadError::TooLong));
}

#[test]
fn a_head_with_the_most_headers_is_written_within_the_limit() {
    let with = |count| {
        let own = "X: a\r\n".repeat(count);
        read(&format!("GET / HTTP/1.1\r\nHost: a.com\r\nContent-Length: 1\r\n{own}\r\n"))
    };
    let head = with(97).unwrap();
    let out = head.for_destination("/", &"a.com".parse().unwrap(), None, [].iter()).unwrap();
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 102);
    assert_eq!(parse(&out).unwrap().headers, head.headers);
    assert_eq!(with(98), Err(HeadError::TooLong));
    // Without a Host and a length, too.
    let old = format!("GET / HTTP/1.0\r\n{}\r\n", "X: a\r\n".repeat(100));
    assert_eq!(read(&old), Err(HeadError::TooLong));
}

proptest! {
    #[test]
    fn the_end_is_found_wherever_it_is_cut(text in "[a \r\n]{0,30}", cut in 0..30_usize) {
        let bytes = text.as_bytes();
        let cut = cut.min(bytes.len());
        let parts = match find_end(&bytes[..cut], 0) {
            Ok(None) => find_end(bytes, cut),
            found => found,
        };
        prop_assert_eq!(parts, find_end(bytes, 0));
    }

    #[test]
    fn what_is_written_is_read_as_the_same(
        path in "[!-~]{0,12}", name in "[!-~]{1,8}", value in "[\\x00-\\xff]{0,16}",
    ) {
        let text = format!("GET http://a.com/{path} HTTP/1.1\r\nHost: a.com\r\n{name}: {value}\r\n\r\n");
        let Ok(head) = find_end(text.as_bytes(), 0).and_then(|end| parse(&text.as_bytes()[..end.unwrap()])) else {
            return Ok(());
        };
        let Target::Absolute(host, _, path) = &head.target else { panic!() };
        let out = head.for_destination(path, host, None, [].iter()).unwrap();
        let end = find_end(&out, 0).unwrap().unwrap();
        prop_assert_eq!(end, out.len());
        let again = parse(&out).unwrap();
        prop_assert_eq!(again.headers, head.headers);
        prop_assert_eq!(again.framing, head.framing);
        prop_assert_eq!(again.target, Target::Path(path.clone()));
    }
}
