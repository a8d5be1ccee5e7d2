//! Devices in a workdir. Inside a session none can be made (`mknodat` in the tables of attacks) and
//! none would work (`nodev`), so a host that has given up both plants one here.

use std::path::Path;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};
use serde_json::json;
use vivarium_tests::Setup;
use vivarium_tests::host::{self, Requirement};

use super::{Files, tar};

/// /dev/zero, of which there is no end (null(4)).
const ZERO: (u64, u64) = (1, 5);

#[test]
fn a_device_is_neither_read_nor_written() {
    if !host::has(&[Requirement::Root]) {
        return;
    }
    let daemon = Setup::default().without(&["mounts", "landlock"]).start();
    let files = Files::of(&daemon);
    let workdir = files.session.value("__import__('os').getcwd()");
    let device = Path::new(workdir.trim_matches('\'')).join("zero");
    mknod(&device, SFlag::S_IFCHR, Mode::from_bits_retain(0o666), makedev(ZERO.0, ZERO.1)).unwrap();
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    std::fs::set_permissions(&device, open_to_all).unwrap();
    // The control: code that opens it reads from it.
    assert_eq!(files.session.value("open('zero', 'rb').read(3)"), r"b'\x00\x00\x00'");
    files.get("zero").expect_problem(409, "not_a_file");
    files.put("zero", b"x").expect_problem(409, "not_a_file");
    files.put("zero/x", b"x").expect_problem(409, "not_a_file");
    let archive = tar::archive(&[tar::file("zero", b"x")]);
    files.unpack("", &archive).expect_problem(409, "not_a_file");
    let request = json!({"code": "1", "outputs": [{"name": "zero"}]});
    let output = files.session.execute_with(&request).ok().0["files"][0].clone();
    assert!(output["error"].as_str().unwrap().contains("not a regular file"), "{output}");
    let input = json!({"code": "1", "files": [{"name": "zero", "text": "x"}]});
    assert_eq!(files.session.execute_with(&input).status(), "rejected");
    let list = files.session.request("GET", "/files", None).expect_success();
    let entries = list["entries"].as_array().unwrap();
    let zero = entries.iter().find(|entry| entry["path"] == "zero").unwrap();
    assert_eq!(zero["kind"], "other");
    // It can be removed, and a file put in its place.
    assert_eq!(files.delete("zero").status, 204);
    assert_eq!(files.put("zero", b"x").status, 201);
    assert_eq!(files.content("zero"), b"x");
    daemon.stop_and_check();
}
