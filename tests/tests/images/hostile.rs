//! Images that are not what a kernel should have written, sealed as if it had. Each is refused or ends the kernel that reads it, and gains nothing:
//! the session sleeps as before, the daemon and its other sessions do not notice.

use vivarium_tests::{Daemon, Session};

use crate::seal::Sealed;
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
    sealed: Sealed,
    good: Vec<u8>,
    /// Where the memory begins, after the template's fingerprint and the files.
    memory: usize,
}

impl<'d> Sleeping<'d> {
    fn new(daemon: &'d Daemon) -> Self {
        let session = session_named(daemon, "a");
        let _made = session.execute("x = 41").ok();
        let _asleep = suspend(&session).expect_success();
        let sealed = Sealed::of(&daemon.dir().join("state"), "a");
        let good = sealed.content();
        let memory = good.windows(9).position(|bytes| bytes == b"vivarium\x02").unwrap();
        Self { daemon, session, sealed, good, memory }
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
        self.sealed.put(content);
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
        (8, &[1], "another version"),
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

/// An archive of what is added to it.
fn archive(add: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    add(&mut builder);
    builder.into_inner().unwrap()
}

fn add_file(builder: &mut tar::Builder<Vec<u8>>, name: &str) {
    let mut header = tar::Header::new_gnu();
    header.set_mode(0o755);
    header.set_size(1);
    builder.append_data(&mut header, name, &b"x"[..]).unwrap();
}

#[test]
fn files_are_put_where_code_can_write_and_nowhere_else() {
    const FINGERPRINT_BYTES: usize = 32;
    let daemon = images(&[]).start();
    let sleeping = Sleeping::new(&daemon);
    let with = |files: Vec<u8>| {
        let (before, memory) =
            (&sleeping.good[..FINGERPRINT_BYTES], &sleeping.good[sleeping.memory..]);
        [before, &files, memory].concat()
    };
    for name in ["usr/bin/owned", "etc/passwd", "owned", "proc/sys/kernel/core_pattern"] {
        let files = archive(|builder| add_file(builder, name));
        sleeping.refused(&with(files), "its files: failed to unpack");
    }
    let through_a_link = archive(|builder| {
        let mut link = tar::Header::new_gnu();
        link.set_entry_type(tar::EntryType::Symlink);
        link.set_size(0);
        builder.append_link(&mut link, "tmp/link", "/usr/bin").unwrap();
        add_file(builder, "tmp/link/owned");
    });
    sleeping.refused(&with(through_a_link), "its files: failed to unpack");
    // The control: the same archive with a name that code can write to.
    sleeping.put(&with(archive(|builder| add_file(builder, "tmp/allowed"))));
    assert_eq!(sleeping.session.value("open('/tmp/allowed').read(), x"), "('x', 41)");
    daemon.stop_and_check();
}
