//! Interpreters, real and pretended.

use super::*;

/// An inspection that asks for no distributions.
fn inspect(interpreter: &Path) -> Result<Interpreter, InspectError> {
    super::inspect(interpreter, &[]).map(|(found, _)| found)
}

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

/// A package, a module, a namespace that another distribution shares, a library beside a package, and a
/// distribution without a list of files.
#[test]
fn distributions_are_hidden_by_packages_and_modules() {
    let dir = tempfile::tempdir().unwrap();
    let site = dir.path().canonicalize().unwrap();
    let files = [
        (
            "Gone_It-1.0.dist-info/RECORD",
            concat!(
                "gone/__init__.py,sha256=x,1\ngone/inner/__init__.py,,\ngone/data.txt,,\n",
                "gone_module.py,,\nshared/gone/__init__.py,,\nshared/one.py,,\ngone.libs/l.so,,\n",
                "../../bin/gone,,\nGone_It-1.0.dist-info/RECORD,,\n",
            ),
        ),
        ("gone_it_too-1.0.dist-info/RECORD", "other/__init__.py,,\nshared/two.py,,\n"),
        ("gone/__init__.py", ""),
        ("gone.libs/l.so", ""),
        ("gone_module.py", ""),
        ("shared/gone/__init__.py", ""),
        ("shared/one.py", ""),
        ("old-2.egg-info/top_level.txt", "old\n_old\nabsent\n"),
        ("old/__init__.py", ""),
        ("_old.py", ""),
    ];
    for (name, text) in files {
        let path = site.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (_shim_dir, shim) = pretend(&format!(
        "#!/bin/sh\nPYTHONPATH={} exec /usr/bin/python3 \"$@\"\n",
        site.display()
    ));
    let names = ["gone.it", "OLD", "never-was"].map(OsString::from);
    let hidden = super::inspect(&shim, &names).unwrap().1;
    let expected = [
        "Gone_It-1.0.dist-info",
        "_old.py",
        "gone",
        "gone.libs",
        "gone_module.py",
        "old",
        "old-2.egg-info",
        "shared/gone",
        "shared/one.py",
    ];
    assert_eq!(hidden.paths, expected.map(|name| site.join(name)));
    assert_eq!(hidden.missing, ["never-was"]);
    let asked_alone = ask(&shim, &names, &[]).unwrap();
    assert_eq!((asked_alone.hidden, asked_alone.missing), (hidden.paths, hidden.missing));
}
