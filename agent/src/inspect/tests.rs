//! Interpreters, real and pretended.

use super::*;

/// A directory with an executable script `python3` in it. Another process writes it: were it
/// open for writing in this one while another test forks, it could not be executed (ETXTBSY).
fn pretend(script: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("python3");
    let mut writer = Command::new("install")
        .args(["-m", "755", "/dev/stdin"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    writer.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
    (dir, path)
}

fn paths(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().map(PathBuf::from).collect()
}

#[test]
fn an_interpreter_tells_what_it_needs() {
    let found = inspect(Path::new("/usr/bin/python3")).unwrap();
    assert!(found.version.starts_with("3."), "{}", found.version);
    assert_eq!(found.path, Path::new("/usr/bin/python3"));
    // marshal's code for a dictionary, with or without its flag for references.
    assert!(matches!(found.program.first(), Some(b'{' | 0xfb)));
}

#[test]
fn a_shim_is_seen_through_and_prints_nothing_into_the_answer() {
    let (_dir, shim) = pretend(
        "#!/bin/sh\necho 'a line with vivarium-inspect: in it'\nexec /usr/bin/python3 \"$@\"\n",
    );
    let found = inspect(&shim).unwrap();
    assert_eq!(found.path, Path::new("/usr/bin/python3"));
}

#[test]
fn a_program_that_is_no_python_is_refused_with_a_reason() {
    let (_dir, mute) = pretend("#!/bin/sh\necho 'broken installation' >&2\n");
    let complaint = inspect(&mute).unwrap_err().to_string();
    assert!(complaint.ends_with("(no answer); it said: broken installation"), "{complaint}");
    let (_dir, liar) = pretend("#!/bin/sh\nprintf '\\nvivarium-inspect:{\"version\": 3}\\n'\n");
    assert!(matches!(inspect(&liar), Err(InspectError::NoAnswer { .. })));
    let (_dir, old) =
        pretend("#!/bin/sh\nprintf '\\nvivarium-inspect:{\"error\": \"this is 2.7\"}\\n'\n");
    assert!(inspect(&old).unwrap_err().to_string().ends_with("python3: this is 2.7"));
    assert!(matches!(inspect(Path::new("/nonexistent/python")), Err(InspectError::Spawn { .. })));
    assert!(matches!(inspect(Path::new("python3")), Err(InspectError::Relative(_))));
}

#[test]
fn the_workdir_is_kept_out_of_the_path_where_python_can() {
    assert_eq!(arguments("3.10.13"), ["-s", "-c", BOOTSTRAP]);
    assert_eq!(arguments("3.11.2"), ["-s", "-P", "-c", BOOTSTRAP]);
    assert_eq!(arguments("3.9.18"), ["-s", "-c", BOOTSTRAP]);
}

#[test]
fn only_prefixes_outside_system_paths_are_bound() {
    let found = needed(paths(&[
        "/usr",
        "/usr/lib/python3/dist-packages",
        "/opt/python",
        "/srv/py/lib",
        "/srv/py",
        "/home/someone/venv",
    ]));
    assert_eq!(found, Ok(paths(&["/home/someone/venv", "/opt/python", "/srv/py"])));
}

#[test]
fn a_prefix_that_holds_more_than_python_is_refused() {
    for wide in ["/", "/home", "/home/someone", "/tmp", "/root", "/etc", "relative"] {
        assert_eq!(needed(paths(&["/srv/py", wide])), Err(PathBuf::from(wide)), "{wide}");
    }
}
