//! Every stream is read the same wherever it is cut.

use proptest::prelude::*;

use super::*;

fn decode<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<SseEvent>, SseError> {
    let mut decoder = Decoder::new(1 << 20);
    for part in parts {
        decoder.feed(part)?;
    }
    Ok(std::iter::from_fn(|| decoder.next_event()).collect())
}

fn event(event: &str, data: &str, id: &str) -> SseEvent {
    SseEvent { event: event.to_owned(), data: data.as_bytes().to_vec(), id: id.to_owned() }
}

#[test]
fn the_stream_of_an_execution_is_read_at_every_cut() {
    let stream = b"\xef\xbb\xbfid: 1\nevent: started\ndata: {\"a\":1}\n\n: keep-alive\n\n\
        id: 2\r\nevent: stdout\r\ndata: {\"text\":\"x\"}\r\n\r\nevent:done\rdata:{}\rid:3\r\r";
    let expected = [
        event("started", "{\"a\":1}", "1"),
        event("stdout", "{\"text\":\"x\"}", "2"),
        event("done", "{}", "3"),
    ];
    assert_eq!(decode([&stream[..]]).unwrap(), expected);
    assert_eq!(decode(stream.chunks(1)).unwrap(), expected);
    for cut in 0..stream.len() {
        let (one, other) = stream.split_at(cut);
        assert_eq!(decode([one, other]).unwrap(), expected, "cut at {cut}");
    }
}

#[test]
fn the_examples_of_the_standard_are_decoded_as_it_says() {
    // The examples of WHATWG HTML 9.2.6.
    let two = b"data: YHOO\ndata: +2\ndata: 10\n\n";
    assert_eq!(decode([&two[..]]).unwrap(), [event("message", "YHOO\n+2\n10", "")]);
    let ids = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n\
        data:  third event\n\n";
    let expected = [
        event("message", "first event", "1"),
        event("message", "second event", ""),
        event("message", " third event", ""),
    ];
    assert_eq!(decode([&ids[..]]).unwrap(), expected);
    let empty = b"data\n\ndata\ndata\n\ndata:";
    assert_eq!(
        decode([&empty[..]]).unwrap(),
        [event("message", "", ""), event("message", "\n", "")]
    );
    // An event without data is none, and an id with NUL neither.
    assert_eq!(
        decode([&b"event: x\nid: a\x00b\n\ndata: y\n\n"[..]]).unwrap(),
        [event("message", "y", "")]
    );
}

#[test]
fn an_oversized_event_is_refused_before_it_is_buffered() {
    let mut decoder = Decoder::new(100);
    let mut fed = 0;
    let error = loop {
        match decoder.feed(b"xxxxxxxxxx") {
            Ok(()) => fed += 10,
            Err(error) => break error,
        }
    };
    assert_eq!((error, fed), (SseError::TooLarge { max_bytes: 100 }, 100));
    let mut decoder = Decoder::new(100);
    let lines = (0..100).find_map(|_| decoder.feed(b"data: 0123456789\n").err());
    assert_eq!(lines, Some(SseError::TooLarge { max_bytes: 100 }));
}

proptest! {
    #[test]
    fn a_stream_is_decoded_the_same_wherever_it_is_cut(
        lines in prop::collection::vec(
            prop_oneof![
                Just(String::new()),
                "(data|event|id|retry|:|x): ?[ -~é\u{2028}]{0,12}",
                "[ -~]{0,12}",
            ],
            0..24,
        ),
        ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r", "\r\n"]), 24),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let stream: String = lines.iter().zip(&ends).flat_map(|(line, end)| [line, *end]).collect();
        let bytes = stream.as_bytes();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let whole = decode([bytes]).unwrap();
        prop_assert_eq!(&decode(parts).unwrap(), &whole);
        prop_assert_eq!(&decode(bytes.chunks(1)).unwrap(), &whole);
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::new(64);
        if decoder.feed(&bytes).is_ok() {
            while decoder.next_event().is_some() {}
        }
    }
}
