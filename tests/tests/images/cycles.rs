//! Sessions that are suspended and resumed again and again, and that move between hosts.
//!
//! `VIVARIUM_TEST_CYCLES` is how often, 60 unless said otherwise.

use serde_json::Value;
use vivarium_tests::Session;

use crate::portable::{Fleet, exported, import};
use crate::{images, session_named, sleep_once, suspend};

/// State in memory, in a file and in its offset. A step changes all of it.
const STATE: &str = "
import hashlib, itertools, os
data, numbers, log = bytearray(os.urandom(200_000)), itertools.count(), open('log', 'w+b')
def digest():
    at = log.tell()
    log.seek(0)
    content = log.read()
    log.seek(at)
    return hashlib.sha256(bytes(data) + content + str((at, numbers)).encode()).hexdigest()
def step():
    number = next(numbers)
    data[number * 997 % len(data)] ^= 1
    log.write(os.urandom(10))
    log.flush()
    return number, digest()";

/// What a cycle leaves in an image, compressed: 10 random bytes in the log, and a digest in `Out`, of 32
/// bytes in hexadecimal digits, twice.
const KEPT_BYTES: u64 = 64;

fn cycles() -> u32 {
    std::env::var("VIVARIUM_TEST_CYCLES").map_or(60, |it| it.parse().unwrap())
}

/// Changes the state; its digest then.
#[track_caller]
fn step(session: &Session<'_>, cycle: u32) -> String {
    let stepped = session.value("step()");
    let (number, digest) = stepped.trim_matches(['(', ')']).split_once(", ").unwrap();
    assert_eq!(number, cycle.to_string());
    digest.to_owned()
}

fn protection(session: &Session<'_>) -> Value {
    session.info()["protection"].clone()
}

#[test]
fn a_session_sleeps_again_and_again_and_loses_neither_state_nor_a_layer() {
    let daemon = images(&[]).start();
    let session = session_named(&daemon, "a");
    let _made = session.execute(STATE).ok();
    let layers = protection(&session);
    let sizes: Vec<_> = (0..cycles())
        .map(|cycle| {
            let digest = step(&session, cycle);
            let asleep = suspend(&session).expect_success();
            assert_eq!(session.value("digest()"), digest, "cycle {cycle}");
            assert_eq!(protection(&session), layers, "cycle {cycle}");
            asleep["image"]["size_bytes"].as_u64().unwrap()
        })
        .collect();
    // Nothing is carried along that grows but what the state keeps of each cycle.
    let (first, last) = (sizes[0], sizes[sizes.len() - 1]);
    assert!(last < first + first / 5 + KEPT_BYTES * u64::from(cycles()), "{first} {last}");
    daemon.stop_and_check();
}

#[test]
fn a_session_moves_between_hosts_again_and_again() {
    let fleet = Fleet::new();
    let hosts = [fleet.host().start(), fleet.host().start()];
    let _made = session_named(&hosts[0], "a").execute(STATE).ok();
    let mut at = 0;
    for cycle in 0..cycles() / 6 {
        let here = Session::named(&hosts[at], "a");
        let digest = step(&here, cycle);
        let _asleep = suspend(&here).expect_success();
        let image = exported(&hosts[at], "a");
        assert_eq!(here.request("DELETE", "", None).status, 204);
        at = 1 - at;
        let _imported = import(&hosts[at], "", &image).expect_success();
        assert_eq!(Session::named(&hosts[at], "a").value("digest()"), digest, "move {cycle}");
    }
    sleep_once(&Session::named(&hosts[at], "a"));
    for host in hosts {
        host.stop_and_check();
    }
}
