//! What programs of different releases say to each other.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vivarium_protocol::PROTOCOL_VERSION;
use vivarium_tests::program;

/// The version of the contract, and the SHA-256 of what it is written in.
const KNOWN: (u32, &str) = (15, "c34782fadf3b3cdcb58bed653036a30028607520becb4f05ad3cc5244e5eff3e");

/// Where it is written: messages, what agent, supervisor and kernel program say to each other, images, and how a template
/// is started.
const WRITTEN_IN: [&str; 8] = [
    "agent/protocol/src",
    "agent/src/kernel/wire",
    "agent/src/kernel/wire.rs",
    "agent/src/image/format.rs",
    "agent/src/zygote.rs",
    "agent/python/core/wire.py",
    "agent/python/calls/tool_channel.py",
    "supervisor/engine/src/session/calls/wire.rs",
];

/// The files at or below a path, but for tests.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut entries: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let is_of_tests = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "tests");
    entries.iter().filter(|path| !is_of_tests(path)).flat_map(|path| files(path)).collect()
}

/// A kernel that is resumed after an upgrade is of the library and kernel program of the release that it was suspended
/// under: they have to understand this one's agent.
#[test]
fn a_change_of_what_programs_say_to_each_other_is_a_new_version() {
    let mut hash = Sha256::new();
    for path in WRITTEN_IN {
        for file in files(&program::workspace().join(path)) {
            let text = fs::read_to_string(file).unwrap();
            let is_said = |line: &&str| {
                let line = line.trim_start();
                !line.is_empty() && !line.starts_with("//") && !line.starts_with('#')
            };
            text.lines().filter(is_said).for_each(|line| hash.update(line));
        }
    }
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        (PROTOCOL_VERSION, &*found),
        KNOWN,
        "What supervisor, agent, library and kernel program say to each other has changed. Raise \
         PROTOCOL_VERSION, unless a library and kernel program from before the change work with an \
         agent from after it; then note the new SHA-256 here. docs/releasing.md says more."
    );
}
