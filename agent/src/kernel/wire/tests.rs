//! Frames as the kernel sends them, and as no kernel should.
#![allow(clippy::cast_possible_truncation)]

use proptest::prelude::{any, prop, prop_assert};
use vivarium_protocol::frame::TooLarge;
use vivarium_protocol::message::{CommandSpec, Noted, ReprLimits};
use vivarium_protocol::outcome::{DisplayKind, MimePart};

use super::parse::TEXT_MAX_BYTES;

use super::*;

mod policies;

const MAX: usize = 4 << 20;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    encode(kind, &[payload])
}

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

fn display(execution: u64, kind: u8, id: &[u8], mime: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut payload = [&execution.to_le_bytes()[..], &[kind], &string(id)].concat();
    payload.extend((mime.len() as u32).to_le_bytes());
    for (kind, data) in mime {
        payload.extend([string(kind), string(data)].concat());
    }
    frame(6, &payload)
}

fn started(execution: u64) -> Vec<u8> {
    frame(5, &execution.to_le_bytes())
}

fn done(execution: u64, completion: u8) -> Vec<u8> {
    frame(4, &[&execution.to_le_bytes()[..], &[completion]].concat())
}

fn account(execution: u64, json: &str) -> Vec<u8> {
    frame(7, &[&execution.to_le_bytes()[..], &string(json.as_bytes())].concat())
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

#[test]
fn every_frame_is_understood_however_it_is_cut() {
    let bytes = [
        frame(1, &[]),
        value(1, b"2", &[(b"text/html", b"\xff<b>")]),
        display(1, 0, b"id", &[(b"text/plain", b"x"), (b"image/png", b"\x89PNG")]),
        display(1, 2, b"", &[]),
        done(1, 0),
        exception(2, b"no", b"Traceback"),
        done(2, 1),
    ]
    .concat();
    let whole = decode(&bytes).unwrap();
    assert_eq!(whole.len(), 7);
    let FromKernel::Value { value, .. } = &whole[1] else { unreachable!() };
    let kinds: Vec<_> = value.mime.iter().map(|part| (&*part.mime_type, &*part.data)).collect();
    assert_eq!(kinds, [("text/plain", &b"2"[..]), ("text/html", b"\xff<b>")]);
    let part =
        |mime_type: &str, data: &[u8]| MimePart { mime_type: mime_type.into(), data: data.into() };
    let mime = vec![part("text/plain", b"x"), part("image/png", b"\x89PNG")];
    let shown = Display { kind: DisplayKind::Display, id: Some("id".to_owned()), mime };
    assert_eq!(whole[2], FromKernel::Display { execution: 1, display: shown });
    let cleared = Display { kind: DisplayKind::Clear, id: None, mime: Vec::new() };
    assert_eq!(whole[3], FromKernel::Display { execution: 1, display: cleared });
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
fn an_answer_of_no_type_has_no_text() {
    let payload =
        [&[7, 0, 0, 0, 0, 0, 0, 0][..], &string(b""), &string(b""), &[1, 0, 0, 0]].concat();
    let json = [string(b"application/json"), string(b"{}")].concat();
    let answer = decode(&frame(2, &[payload, json].concat())).unwrap();
    let [FromKernel::Value { value, .. }] = &*answer else { unreachable!() };
    assert_eq!(value.mime.len(), 1);
    assert_eq!(value.mime[0].mime_type, "application/json");
}

#[test]
fn encoded_requests_match_the_documented_frames() {
    let complete = b"\x13\0\0\0\x03\x07\0\0\0\0\0\0\0\x01\0\0\0\x02\0\0\0\xc3\xa9";
    let encoded = |work: Work| encode_work(7, &work).unwrap();
    let assist = |kind, code: &str| encoded(Work::Assist { kind, code: code.into(), cursor: 1 });
    assert_eq!(assist(Assist::Complete, "é"), complete);
    let inspect = b"\x12\0\0\0\x04\x07\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0a";
    assert_eq!(assist(Assist::Inspect, "a"), inspect);
    let is_complete = b"\x12\0\0\0\x06\x07\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0a";
    assert_eq!(assist(Assist::IsComplete, "a"), is_complete);
    let repr = ReprLimits { max_items: 3, max_chars: 258, max_depth: u32::MAX };
    let code = |cwd: Option<&str>, env| Work::Code {
        code: "é".into(),
        filename: "f".into(),
        cwd: cwd.map(Into::into),
        env,
        repr,
        tools: false,
        policy: Box::default(),
    };
    let limits = b"\x03\0\0\0\x02\x01\0\0\xff\xff\xff\xff\0\0\0\0";
    let frame = [
        b"\x30\0\0\0\x01\x07\0\0\0\0\0\0\0".as_slice(),
        limits,
        b"\x01\0\0\0f\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\xc3\xa9",
    ];
    assert_eq!(encoded(code(None, vec![])), frame.concat());
    let frame = [
        b"\x3c\0\0\0\x01\x07\0\0\0\0\0\0\0".as_slice(),
        limits,
        b"\x01\0\0\0f\x01\0\0\0.",
        b"\x01\0\0\0\x01\0\0\0a\x02\0\0\0bc\0\0\0\0\x02\0\0\0\xc3\xa9",
    ];
    assert_eq!(encoded(code(Some(""), vec![("a".into(), "bc".into())])), frame.concat());
    assert_eq!(encode_work(7, &Work::Command(CommandSpec::default())), None);
    assert_eq!(encode_shown(7), b"\x09\0\0\0\x05\x07\0\0\0\0\0\0\0");
    assert_eq!(encode_config(Some(258)), b"\x09\0\0\0\x02\x02\x01\0\0\0\0\0\0");
    assert_eq!(encode_config(None), b"\x09\0\0\0\x02\xff\xff\xff\xff\xff\xff\xff\xff");
}

#[test]
fn the_frame_limit_follows_max_result_bytes_within_bounds() {
    assert_eq!(frame_limit(Some(10)), 10 + (1 << 20));
    assert_eq!(frame_limit(None), frame_limit(Some(u64::MAX)));
    assert!(frame_limit(None) + TEXT_MAX_BYTES < MAX_FRAME_BYTES);
    let mut decoder = Decoder::new(10);
    decoder.push(&11_u32.to_le_bytes());
    assert_eq!(decoder.next(), Err(TooLarge { len: 11, max: 10 }.into()));
}

#[test]
fn invalid_frames_are_refused_with_the_reason() {
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
        (done(1, 4), "the kernel sent the unknown completion 4"),
        (display(1, 5, b"", &[]), "the kernel sent a display of unknown kind 5"),
        (
            display(1, 2, b"", &[(b"text/plain", b"x")]),
            "the kernel's DISPLAY frame has a count of representations of 1, and 0 is the most",
        ),
        (
            display(1, 0, &[b'x'; 4097], &[]),
            "the kernel's DISPLAY frame has a display id of 4097, and 4096 is the most",
        ),
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
    let valid = [
        value(1, b"[1, 2]", &[(b"image/png", b"\x89PNG")]),
        display(1, 1, b"id", &[(b"text/html", b"<b>")]),
        exception(1, b"m", b"t"),
    ]
    .concat();
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

proptest::proptest! {
    /// Some with a plausible length and type, so that the payload is looked at.
    #[test]
    fn random_bytes_never_panic(
        frames in prop::collection::vec(
            (any::<bool>(), 0_u8..9, prop::collection::vec(0_u8..7, 0..64)),
            0..8,
        ),
        cut in 1_usize..40,
    ) {
        let mut bytes = Vec::new();
        for (framed, kind, payload) in frames {
            bytes.extend(if framed { frame(kind, &payload) } else { payload });
        }
        let mut decoder = Decoder::new(66);
        let mut turn = Turn::default();
        for piece in bytes.chunks(cut) {
            decoder.push(piece);
            loop {
                match decoder.next() {
                    Ok(Some(message)) => drop(turn.accept(&message)),
                    Ok(None) => break,
                    // The kernel would be killed here.
                    Err(_) => return Ok(()),
                }
            }
        }
    }

    /// Whatever is shown comes out as it went in.
    #[test]
    fn displays_survive_the_wire(
        kind in 0_u8..5,
        id in "[a-z]{0,8}",
        mime in prop::collection::vec(("[a-z]/[a-z]", prop::collection::vec(any::<u8>(), 0..50)), 0..64),
    ) {
        let mime: Vec<_> = if kind == 2 { Vec::new() } else { mime };
        let parts: Vec<_> = mime.iter().map(|(kind, data)| (kind.as_bytes(), &**data)).collect();
        let messages = decode(&display(3, kind, id.as_bytes(), &parts)).unwrap();
        let [FromKernel::Display { execution: 3, display }] = &*messages else { unreachable!() };
        prop_assert!(display.id.as_deref().unwrap_or("") == id);
        let came: Vec<_> =
            display.mime.iter().map(|part| (part.mime_type.clone(), part.data.clone())).collect();
        prop_assert!(came == mime);
    }
}

#[test]
fn executions_take_their_turn() {
    let mut turn = Turn::default();
    follow(&mut turn, &frame(1, &[])).unwrap();
    turn.sent(1, Noted::default());
    let shown = || display(1, 0, b"", &[]);
    let all = [started(1), shown(), value(1, b"2", &[]), shown(), done(1, 0)];
    follow(&mut turn, &all.concat()).unwrap();
    turn.sent(2, Noted::default());
    follow(
        &mut turn,
        &[started(2), exception(2, b"", b""), display(2, 3, b"", &[]), done(2, 1)].concat(),
    )
    .unwrap();
    turn.sent(3, Noted::default());
    follow(&mut turn, &[started(3), exception(3, b"", b""), done(3, 2)].concat()).unwrap();
    turn.sent(4, Noted::default());
    follow(&mut turn, &done(4, 0)).unwrap();
    turn.sent(5, Noted { max_work: Some(1), ..Noted::default() });
    let raised = [started(5), exception(5, b"", b""), account(5, "{}"), done(5, 3)].concat();
    follow(&mut turn, &raised).unwrap();
    turn.sent(6, Noted::default());
    follow(&mut turn, &[started(6), value(6, b"2", &[]), account(6, "{}"), done(6, 0)].concat())
        .unwrap();
}

#[test]
fn frames_out_of_turn_are_refused() {
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
            display(5, 0, b"", &[]),
            "DISPLAY of execution 5 while execution 5 had not begun",
        ),
        (
            Some(5),
            [started(5), display(4, 0, b"", &[])].concat(),
            "DISPLAY of execution 4 while execution 5 was running",
        ),
        (
            Some(5),
            [started(5), done(5, 0), display(5, 0, b"", &[])].concat(),
            "DISPLAY of execution 5 while nothing was running",
        ),
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
            [started(5), exception(5, b"", b""), account(5, "{}"), done(5, 0)].concat(),
            "DONE (Ok) of execution 5 while execution 5 was running and had given its account",
        ),
        (
            Some(5),
            [started(5), account(5, "{}"), account(5, "{}")].concat(),
            "ACCOUNT of execution 5 while execution 5 was running and had given its account",
        ),
        (
            Some(5),
            [started(5), account(4, "{}")].concat(),
            "ACCOUNT of execution 4 while execution 5 was running",
        ),
        (
            Some(5),
            [done(5, 0), done(5, 0)].concat(),
            "DONE (Ok) of execution 5 while nothing was running",
        ),
    ] {
        let mut turn = Turn::default();
        if let Some(execution) = sent {
            turn.sent(execution, Noted::default());
        }
        let complained = follow(&mut turn, &bytes).unwrap_err().to_string();
        assert_eq!(complained, format!("the kernel sent {complaint}"));
    }
}
