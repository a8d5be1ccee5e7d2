//! Frames as the kernel sends them, and as no kernel should.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]

use super::*;

const MAX: usize = 4 << 20;

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text].concat()
}

fn value(execution: u64, repr: &[u8], mime: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut payload = [&execution.to_le_bytes()[..], &string(repr), &string(b"int")].concat();
    payload.extend((mime.len() as u32).to_le_bytes());
    for (kind, data) in mime {
        payload.extend([string(kind), string(data)].concat());
    }
    frame(2, &payload)
}

fn exception(execution: u64, message: &[u8], traceback: &[u8]) -> Vec<u8> {
    let texts = [string(b"ValueError"), string(message), string(traceback)].concat();
    frame(3, &[&execution.to_le_bytes()[..], &texts].concat())
}

fn started(execution: u64) -> Vec<u8> {
    frame(5, &execution.to_le_bytes())
}

fn done(execution: u64, completion: u8) -> Vec<u8> {
    frame(4, &[&execution.to_le_bytes()[..], &[completion]].concat())
}

fn decode(bytes: &[u8]) -> Result<Vec<FromKernel>, WireError> {
    let mut decoder = Decoder::new(MAX);
    decoder.push(bytes);
    let mut messages = Vec::new();
    while let Some(message) = decoder.next()? {
        messages.push(message);
    }
    Ok(messages)
}

fn follow(turn: &mut Turn, bytes: &[u8]) -> Result<(), WireError> {
    decode(bytes)?.iter().try_for_each(|message| turn.accept(message))
}

/// A fixed sequence of numbers (xorshift), so that a failure can be repeated.
fn numbers(mut seed: u64) -> impl FnMut() -> u64 {
    move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    }
}

#[test]
fn every_frame_is_understood_however_it_is_cut() {
    let bytes = [
        frame(1, &[]),
        value(1, b"2", &[(b"text/html", b"\xff<b>")]),
        done(1, 0),
        exception(2, b"no", b"Traceback"),
        done(2, 1),
    ]
    .concat();
    let whole = decode(&bytes).unwrap();
    assert_eq!(whole.len(), 5);
    let FromKernel::Value { value, .. } = &whole[1] else { unreachable!() };
    let kinds: Vec<_> = value.mime.iter().map(|part| (&*part.mime_type, &*part.data)).collect();
    assert_eq!(kinds, [("text/plain", &b"2"[..]), ("text/html", b"\xff<b>")]);
    for size in 1..bytes.len() {
        let mut decoder = Decoder::new(MAX);
        let mut messages = Vec::new();
        for piece in bytes.chunks(size) {
            decoder.push(piece);
            while let Some(message) = decoder.next().unwrap() {
                messages.push(message);
            }
        }
        assert_eq!(messages, whole);
    }
}

#[test]
fn what_the_agent_sends() {
    assert_eq!(encode_execute(7, "é"), b"\x0f\0\0\0\x01\x07\0\0\0\0\0\0\0\x02\0\0\0\xc3\xa9");
    assert_eq!(encode_config(Some(258)), b"\x09\0\0\0\x02\x02\x01\0\0\0\0\0\0");
    assert_eq!(encode_config(None), b"\x09\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff");
}

#[test]
fn limits_of_frames() {
    assert_eq!(frame_limit(Some(10)), 10 + (1 << 20));
    assert_eq!(frame_limit(None), frame_limit(Some(u64::MAX)));
    assert!(frame_limit(None) + TEXT_MAX_BYTES < MAX_FRAME_BYTES);
    let mut decoder = Decoder::new(10);
    decoder.push(&11_u32.to_le_bytes());
    assert_eq!(decoder.next(), Err(WireError::TooLong { len: 11, max: 10 }));
}

#[test]
fn nonsense_is_refused_by_name() {
    let huge = vec![b'x'; TEXT_MAX_BYTES + 1];
    let mut many = value(1, b"2", &[]);
    let count = many.len() - 4;
    many[count..].copy_from_slice(&65_u32.to_le_bytes());
    for (bytes, complaint) in [
        (frame(9, &[]), "the kernel sent a frame of unknown type 9"),
        (frame(0, &[]), "the kernel sent a frame of unknown type 0"),
        (vec![0; 4], "the kernel sent an empty frame"),
        (frame(1, &[0]), "the kernel's READY frame has 1 bytes after its end"),
        (frame(4, &[0; 8]), "the kernel's DONE frame ends within its completion"),
        (frame(4, &[0; 10]), "the kernel's DONE frame has 1 bytes after its end"),
        (done(1, 3), "the kernel sent the unknown completion 3"),
        (
            value(1, &huge, &[]),
            "the kernel's VALUE frame has a repr of 1048577, and 1048576 is the most",
        ),
        (value(1, b"\xff", &[]), "the kernel's VALUE frame has a repr that is not UTF-8"),
        (many, "the kernel's VALUE frame has a count of representations of 65, and 64 is the most"),
        (
            exception(1, &huge, b""),
            "the kernel's EXCEPTION frame has a message of 1048577, and 65536 is the most",
        ),
        (
            [&13_u32.to_le_bytes()[..], &[3], &[0; 8], &[255, 0, 0, 0]].concat(),
            "the kernel's EXCEPTION frame ends within its type",
        ),
        (
            b"hi there\n".to_vec(),
            "the kernel announced a frame of 1948281192 bytes, and 4194304 is the most",
        ),
    ] {
        assert_eq!(decode(&bytes).unwrap_err().to_string(), complaint);
    }
}

#[test]
fn every_prefix_and_every_changed_byte_is_an_answer_not_a_panic() {
    let valid =
        [value(1, b"[1, 2]", &[(b"image/png", b"\x89PNG")]), exception(1, b"m", b"t")].concat();
    for end in 0..valid.len() {
        drop(decode(&valid[..end]));
    }
    for at in 0..valid.len() {
        for bit in 0..8 {
            let mut changed = valid.clone();
            changed[at] ^= 1 << bit;
            drop(decode(&changed));
        }
    }
}

#[test]
fn random_bytes_never_panic_and_never_grow_the_buffer() {
    let mut next = numbers(0x9E37_79B9_7F4A_7C15);
    for _ in 0..20_000 {
        let len = (next() % 64) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| (next() % 6) as u8).collect();
        if next().is_multiple_of(2) {
            // A plausible length, so that the payload is looked at.
            let length = (len.saturating_sub(PREFIX_BYTES) as u32).to_le_bytes();
            bytes.splice(..bytes.len().min(PREFIX_BYTES), length);
        }
        let mut decoder = Decoder::new(64);
        let mut turn = Turn::default();
        for piece in bytes.chunks(7) {
            decoder.push(piece);
            while let Ok(Some(message)) = decoder.next() {
                drop(turn.accept(&message));
            }
        }
        assert!(decoder.buffer.len() <= 64 + PREFIX_BYTES + 7);
    }
}

#[test]
fn a_large_buffer_is_given_back() {
    let mut decoder = Decoder::new(MAX);
    decoder.push(&value(1, &vec![b'x'; TEXT_MAX_BYTES], &[]));
    assert!(decoder.next().unwrap().is_some());
    assert_eq!(decoder.buffer.capacity(), 0);
}

#[test]
fn executions_take_their_turn() {
    let mut turn = Turn::default();
    follow(&mut turn, &frame(1, &[])).unwrap();
    turn.sent(1);
    follow(&mut turn, &[started(1), value(1, b"2", &[]), done(1, 0)].concat()).unwrap();
    turn.sent(2);
    follow(&mut turn, &[started(2), exception(2, b"", b""), done(2, 1)].concat()).unwrap();
    turn.sent(3);
    follow(&mut turn, &[started(3), exception(3, b"", b""), done(3, 2)].concat()).unwrap();
    turn.sent(4);
    follow(&mut turn, &done(4, 0)).unwrap();
}

#[test]
fn what_comes_out_of_turn_is_refused() {
    let ready = || frame(1, &[]);
    for (sent, bytes, complaint) in [
        (None, done(1, 0), "DONE (Ok) of execution 1 while it was starting"),
        (None, [ready(), ready()].concat(), "READY while nothing was running"),
        (
            None,
            [ready(), value(1, b"", &[])].concat(),
            "VALUE of execution 1 while nothing was running",
        ),
        (Some(5), ready(), "READY while execution 5 had not begun"),
        (Some(5), value(5, b"", &[]), "VALUE of execution 5 while execution 5 had not begun"),
        (
            Some(5),
            [started(5), started(5)].concat(),
            "STARTED of execution 5 while execution 5 was running",
        ),
        (
            Some(5),
            [started(5), done(4, 0)].concat(),
            "DONE (Ok) of execution 4 while execution 5 was running",
        ),
        (
            Some(5),
            [started(5), value(5, b"", &[]), value(5, b"", &[])].concat(),
            "VALUE of execution 5 while execution 5 was running and had given its value",
        ),
        (
            Some(5),
            [started(5), value(5, b"", &[]), exception(5, b"", b"")].concat(),
            "EXCEPTION of execution 5 while execution 5 was running and had given its value",
        ),
        (
            Some(5),
            [started(5), exception(5, b"", b""), done(5, 0)].concat(),
            "DONE (Ok) of execution 5 while execution 5 was running and had raised",
        ),
        (
            Some(5),
            [done(5, 0), done(5, 0)].concat(),
            "DONE (Ok) of execution 5 while nothing was running",
        ),
    ] {
        let mut turn = Turn::default();
        if let Some(execution) = sent {
            turn.sent(execution);
        }
        let complained = follow(&mut turn, &bytes).unwrap_err().to_string();
        assert_eq!(complained, format!("the kernel sent {complaint}"));
    }
}
