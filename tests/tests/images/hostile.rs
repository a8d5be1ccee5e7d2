//! Images that are not what a kernel wrote. Each is refused or ends the kernel that reads it, and gains nothing:
//! the session sleeps as before, the daemon and its other sessions do not notice.

use std::fs;
use std::path::PathBuf;

use vivarium_tests::{Daemon, Session};

use crate::{images, resume, session_named, suspend};

/// Where the fields of the header are, from the beginning of the memory on: agent/src/image/format.rs.
const TEMPLATE: usize = 16;
const MAPPINGS: usize = 56;
const RUNS: usize = 64;
const REGISTERS: usize = 80;
const TABLES: usize = 384;
const MAPPING_BYTES: usize = 56;

/// A session that sleeps, and its image.
struct Sleeping<'d> {
    daemon: &'d Daemon,
    session: Session<'d>,
    path: PathBuf,
    good: Vec<u8>,
    /// Where the memory begins, after the template's fingerprint and the files.
    memory: usize,
}

impl<'d> Sleeping<'d> {
    fn new(daemon: &'d Daemon) -> Self {
        let session = session_named(daemon, "a");
        let _made = session.execute("x = 41").ok();
        let _asleep = suspend(&session).expect_success();
        let path = daemon.dir().join("state/images/default/a/kernel.zst");
        let good = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
        let memory = good.windows(9).position(|bytes| bytes == b"vivarium\x01").unwrap();
        Self { daemon, session, path, good, memory }
    }

    fn number(&self, at: usize) -> u64 {
        let at = self.memory + at;
        u64::from_le_bytes(self.good[at..at + 8].try_into().unwrap())
    }

    fn with(&self, at: usize, bytes: &[u8]) -> Vec<u8> {
        let (mut changed, at) = (self.good.clone(), self.memory + at);
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    }

    fn put(&self, content: &[u8]) {
        fs::write(&self.path, zstd::encode_all(content, 1).unwrap()).unwrap();
    }

    /// It is refused for this reason.
    #[track_caller]
    fn refused(&self, content: &[u8], why: &str) {
        self.put(content);
        let answer = resume(&self.session);
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, 409, "{detail}");
        assert!(detail.contains(why), "{detail}");
        self.sleeps_on();
    }

    /// Whatever becomes of it, nothing of it is left once it is deleted.
    #[track_caller]
    fn is_harmless(&self, content: &[u8]) {
        self.put(content);
        let _answer = resume(&self.session);
        assert_eq!(self.session.request("DELETE", "", None).status, 204);
        self.daemon.until_only(1);
    }

    #[track_caller]
    fn sleeps_on(&self) {
        let info = self.session.request("GET", "", None).expect_success();
        assert_eq!(info["state"], "suspended");
        self.daemon.until_only(0);
    }
}

#[test]
fn what_is_no_image_of_this_template_is_refused_by_name() {
    let daemon = images(&[]).start();
    let sleeping = Sleeping::new(&daemon);
    let (mappings, runs) = (sleeping.number(MAPPINGS), sleeping.number(RUNS));
    assert!(mappings > 10 && runs > 10);
    for (at, bytes, why) in [
        (0, &[0][..], "not an image"),
        (8, &[2], "another version"),
        (12, &[0, 0], "another machine"),
        (TEMPLATE, &[0; 32], "another template"),
        (MAPPINGS, &[255; 8], "more in it than any has"),
        (RUNS, &[255; 8], "more in it than any has"),
        (RUNS + 8, &[255; 8], "more in it than any has"),
        (MAPPINGS, &(mappings - 1).to_le_bytes(), "an image"),
        (RUNS, &(runs + 1).to_le_bytes(), "an image"),
        // The first mapping: where it begins, and what it is of.
        (TABLES, &[1], "mappings are none"),
        (TABLES + 47, &[9], "mappings are none"),
        (TABLES + MAPPING_BYTES, &[0; 8], "mappings are none"),
    ] {
        sleeping.refused(&sleeping.with(at, bytes), why);
    }
    sleeping.refused(&sleeping.good[..sleeping.memory + TABLES], "ends too early");
    sleeping.refused(b"", "ends too early");
    // The control: as it was, it is resumed.
    sleeping.put(&sleeping.good);
    assert_eq!(sleeping.session.value("x"), "41");
    daemon.stop_and_check();
}

#[test]
fn registers_and_tables_that_lie_end_their_own_kernel_at_most() {
    let daemon = images(&[]).start();
    let neighbour = session_named(&daemon, "neighbour");
    let _made = neighbour.execute("y = 42").ok();
    // Addresses: none, the kernel's half, no canonical one, the memory that loading stands on.
    for address in [0, 0xffff_ffff_8100_0000, 1 << 60, 0x1000_0000_0000_u64] {
        for register in [6, 7] {
            let sleeping = Sleeping::new(&daemon);
            let lie = sleeping.with(REGISTERS + register * 8, &address.to_le_bytes());
            sleeping.is_harmless(&lie);
        }
    }
    // Every eighth byte of the runs' table, and of a mapping's entry.
    for at in 0..7 {
        let sleeping = Sleeping::new(&daemon);
        let entry = TABLES + 30 * MAPPING_BYTES + at * 8;
        sleeping.is_harmless(&sleeping.with(entry, &[0x40]));
        let runs = TABLES + usize::try_from(sleeping.number(MAPPINGS)).unwrap() * MAPPING_BYTES;
        let sleeping = Sleeping::new(&daemon);
        sleeping.is_harmless(&sleeping.with(runs + at * 9, &[0x80]));
    }
    assert_eq!(neighbour.value("y"), "42");
    daemon.stop_and_check();
}
