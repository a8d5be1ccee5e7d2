//! The Debian package of the runtime: `systemd/deb/build-wasm`.

use std::fs;
use std::process::Output;

use super::*;

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().trim().to_owned()
}

#[test]
fn the_package_has_the_programs_and_restarts_the_daemon_when_it_is_upgraded() {
    if !host::has(&[Requirement::DpkgDev]) {
        return;
    }
    let dir = program::temp_dir();
    let programs = dir.path().join("programs");
    fs::create_dir_all(programs.join("target")).unwrap();
    fs::copy("/bin/true", programs.join("vivarium-wasm")).unwrap();
    for name in ["python.cwasm", "target/python.wasm"] {
        fs::write(programs.join(name), "code").unwrap();
        fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o666)).unwrap();
    }
    let script = program::workspace().join("systemd/deb/build-wasm");
    let built = Command::new(script).arg(&programs).arg(dir.path().join("out")).output().unwrap();
    let package = said(&built);
    let ask = |arguments: &[&str]| {
        said(&Command::new("dpkg-deb").args(arguments).env("LC_ALL", "C").output().unwrap())
    };
    let contents = ask(&["--contents", &package]);
    let mode_of = |name: &str| {
        let mut lines = contents.lines();
        let line = lines.find(|line| line.ends_with(&format!("/usr/lib/vivarium/wasm/{name}")));
        line.map(|line| line.split(' ').next().unwrap().to_owned())
    };
    assert_eq!(mode_of("vivarium-wasm").as_deref(), Some("-rwxr-xr-x"), "{contents}");
    assert_eq!(mode_of("python.cwasm").as_deref(), Some("-rw-r--r--"), "{contents}");
    assert!(!contents.contains("python.wasm"), "{contents}");
    assert!(!contents.lines().any(|line| !line.contains("root/root")), "{contents}");
    let script = ask(&["--info", &package, "postinst"]);
    assert!(script.contains("deb-systemd-invoke try-restart vivarium.service"), "{script}");
}
