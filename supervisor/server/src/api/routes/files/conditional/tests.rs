use vivarium_protocol::message::FileKind;

use super::*;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

/// A file of 100 bytes, modified so many milliseconds after 2026 began, seen ten seconds after.
fn version(modified_ms: i64) -> Version {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let modified_ms = begin.as_millisecond() + modified_ms;
    let entry =
        FileEntry { path: "a".into(), kind: FileKind::File, size_bytes: 100, modified_ms, mode: 0 };
    Version::at(&entry, begin + SignedDuration::from_secs(10))
}

fn decide(pairs: &[(&'static str, &str)]) -> Decision {
    ConditionalRequest::new(&headers(pairs), false).decide(&version(0), 100)
}

const fn part(start: u64, length: u64) -> Decision {
    Decision::Send(ByteRange { start, length, is_part: true })
}

const WHOLE: Decision = Decision::Send(ByteRange { start: 0, length: 100, is_part: false });

#[test]
fn ranges_are_those_of_rfc_9110() {
    for (range, expected) in [
        ("bytes=0-0", part(0, 1)),
        ("bytes=10-19", part(10, 10)),
        ("BYTES = 10-19", part(10, 10)),
        ("bytes=90-", part(90, 10)),
        ("bytes=-10", part(90, 10)),
        ("bytes=-1000", part(0, 100)),
        ("bytes=0-99999999999999999999999", part(0, 100)),
        ("bytes=99-18446744073709551615", part(99, 1)),
        ("bytes=100-", Decision::Unsatisfiable),
        ("bytes=100-200", Decision::Unsatisfiable),
        ("bytes=99999999999999999999999-", Decision::Unsatisfiable),
        ("bytes=-0", Decision::Unsatisfiable),
        // Not one range of bytes: as if nothing had been asked for.
        ("bytes=20-10", WHOLE),
        ("bytes=-", WHOLE),
        ("bytes=0-1,5-6", WHOLE),
        ("bytes=+1-2", WHOLE),
        ("bytes=a-b", WHOLE),
        ("bytes 0-1", WHOLE),
        ("lines=0-1", WHOLE),
    ] {
        assert_eq!(decide(&[("range", range)]), expected, "{range}");
    }
    let of_empty = ConditionalRequest::new(&headers(&[("range", "bytes=0-")]), false);
    assert_eq!(of_empty.decide(&version(0), 0), Decision::Unsatisfiable);
    let head = ConditionalRequest::new(&headers(&[("range", "bytes=0-0")]), true);
    assert_eq!(head.decide(&version(0), 100), WHOLE);
}

#[test]
fn the_first_guess_is_most_often_right() {
    let guess =
        |range: &str| ConditionalRequest::new(&headers(&[("range", range)]), false).first_guess();
    assert_eq!(ConditionalRequest::default().first_guess(), (0, None));
    assert_eq!(guess("bytes=5-"), (5, None));
    assert_eq!(guess("bytes=5-9"), (5, Some(5)));
    assert_eq!(guess("bytes=0-18446744073709551615"), (0, None));
    assert_eq!(guess("bytes=-5"), (0, Some(0)));
}

#[test]
fn tags_tell_versions_apart() {
    let settled = version(0).etag();
    assert!(settled.starts_with('"'), "{settled}");
    assert_ne!(settled, version(1).etag());
    // Changed a second ago: it may change again without a trace.
    assert!(version(9000).etag().starts_with("W/\""));
    assert!(version(60_000).etag().starts_with("W/\""));
    assert_eq!(version(0).last_modified().unwrap(), "Thu, 01 Jan 2026 00:00:00 GMT");
    assert_eq!(version(1999).last_modified().unwrap(), "Thu, 01 Jan 2026 00:00:01 GMT");
    assert_eq!(version(60_000).last_modified(), None);
    // A tenant chooses the times of its files.
    let long_ago = version(-60 * 366 * 86_400_000);
    assert_eq!(long_ago.last_modified().unwrap(), "Wed, 17 Nov 1965 00:00:00 GMT");
    let since = headers(&[("if-modified-since", "Thu, 01 Jan 2026 00:00:00 GMT")]);
    let asked = ConditionalRequest::new(&since, false);
    assert_eq!(asked.decide(&long_ago, 100), Decision::NotModified);
}

#[test]
fn unchanged_content_is_not_sent_again() {
    let tag = version(0).etag();
    let weak = format!("W/{tag}");
    let several = format!("\"x\", {weak} ,\"y\"");
    for tags in [&tag, &weak, &several, "*"] {
        assert_eq!(decide(&[("if-none-match", tags)]), Decision::NotModified, "{tags}");
    }
    assert_eq!(
        decide(&[("if-none-match", "\"x\""), ("if-none-match", &tag)]),
        Decision::NotModified
    );
    assert_eq!(decide(&[("if-none-match", "\"x\"")]), WHOLE);
    let since = |date: &str| decide(&[("if-modified-since", date)]);
    assert_eq!(since("Thu, 01 Jan 2026 00:00:00 GMT"), Decision::NotModified);
    assert_eq!(since("Wed, 31 Dec 2025 23:59:59 GMT"), WHOLE);
    assert_eq!(since("yesterday"), WHOLE);
    // The tag is the better word.
    let both = [("if-none-match", "\"x\""), ("if-modified-since", "Fri, 02 Jan 2026 00:00:00 GMT")];
    assert_eq!(decide(&both), WHOLE);
}

#[test]
fn a_range_of_another_version_is_all_of_this_one() {
    let range = ("range", "bytes=0-9");
    let tag = version(0).etag();
    assert_eq!(decide(&[range, ("if-range", &tag)]), part(0, 10));
    for other in ["\"x\"", &format!("W/{tag}"), "Thu, 01 Jan 2026 00:00:00 GMT"] {
        assert_eq!(decide(&[range, ("if-range", other)]), WHOLE, "{other}");
    }
    // A version that may not be the only one with its tag.
    let fresh = version(9000);
    let asked = ConditionalRequest::new(&headers(&[range, ("if-range", &fresh.etag())]), false);
    assert_eq!(asked.decide(&fresh, 100), WHOLE);
}
