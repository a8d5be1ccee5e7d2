use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use vivarium_api_types::TokenHash;

use crate::config::{Config, ConfigErrors, File, Sources, resolve};

fn token(of: &str) -> String {
    format!("token_sha256 = [\"{}\"]\n", TokenHash::of(of))
}

fn entry(name: &str) -> String {
    format!("[[tenant]]\nname = \"{name}\"\n{}", token(name))
}

fn resolved(text: &str) -> Result<Config, ConfigErrors> {
    let user = format!("[server]\nuser = \"{}\"\n", nix::unistd::Uid::effective());
    let file = File { path: "/etc/main.toml".into(), text: format!("{text}\n{user}") };
    resolve(&Sources { file: Some(file), all_tenants: true, ..Sources::default() })
}

fn names(config: &Config) -> Vec<&str> {
    config.settings.tenants.keys().map(String::as_str).collect()
}

fn in_directory(dir: &Path, more: &str) -> Result<Config, ConfigErrors> {
    resolved(&format!("{more}\n[tenants]\ndirectory = {dir:?}\n"))
}

fn script(dir: &Path, body: &str) -> String {
    let path = dir.join("list");
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    // As another process may have it open for writing while one forks (ETXTBSY).
    format!("[tenants]\ncommand = [\"/bin/sh\", {path:?}]\ntimeout = \"2s\"\n")
}

#[test]
fn each_file_is_a_tenant_beside_those_of_the_main_file() {
    let dir = tempfile::tempdir().unwrap();
    let more = "max_sessions = 3\n[sandbox]\nmax_procs = 7\n[[token]]\nhash = \"";
    let more = format!("{}{more}{}\"\n", token("b"), TokenHash::of("b2"));
    fs::write(dir.path().join("b.toml"), more).unwrap();
    fs::write(dir.path().join("a.toml"), format!("name = \"a\"\n{}", token("a"))).unwrap();
    for ignored in [".c.toml", "d.toml~", "e.txt"] {
        fs::write(dir.path().join(ignored), "nonsense").unwrap();
    }
    let config = in_directory(dir.path(), &entry("main")).unwrap();
    assert_eq!(names(&config), ["a", "b", "main"]);
    let b = &config.settings.tenants["b"];
    assert_eq!((b.tokens.len(), b.max_sessions.get()), (2, Some(3)));
    let own = config.settings.of_tenant("b").unwrap();
    assert_eq!(own.sandbox.limits.max_procs.get(), Some(7));
}

#[test]
fn one_bad_file_refuses_all_with_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("good.toml"), token("good")).unwrap();
    for (name, text, why) in [
        ("x.toml", format!("\n\nmax_session = 1\n{}", token("x")), "x.toml:3: tenant.max_session"),
        ("x.toml", format!("name = \"y\"\n{}", token("x")), "x.toml:1: tenant.name"),
        ("x.toml", "max_sessions = 1\n".to_owned(), "x.toml:1: tenant.x.token_sha256: is missing"),
        ("x.toml", "= 1\n".to_owned(), "x.toml:1: not TOML"),
        ("x.toml", token("good"), "is a token of tenant \"good\" too"),
        ("a b.toml", token("x"), "a b.toml:1: tenant.name"),
        ("main.toml", token("x"), "there already is a tenant \"main\""),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        let errors = in_directory(dir.path(), &entry("main")).unwrap_err().to_string();
        assert!(errors.contains(why), "{errors}");
        fs::remove_file(path).unwrap();
    }
    assert!(in_directory(dir.path(), "").is_ok());
}

#[test]
fn what_others_can_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    let file = own.join("a.toml");
    fs::write(&file, token("a")).unwrap();
    let refused = |path: &Path, mode: u32| {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let errors = in_directory(&own, "").unwrap_err().to_string();
        assert!(errors.contains("others than its owner can write"), "{errors}");
        fs::set_permissions(path, before).unwrap();
        assert!(in_directory(&own, "").is_ok());
    };
    refused(&own, 0o775);
    refused(&own, 0o1777);
    refused(&file, 0o666);
    refused(dir.path(), 0o777);
    std::os::unix::fs::symlink(&file, own.join("b.toml")).unwrap();
    assert!(in_directory(&own, "").unwrap_err().to_string().contains("is a symbolic link"));
}

#[test]
fn no_tenant_at_all_is_an_error_and_not_a_daemon_for_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let errors = in_directory(dir.path(), "").unwrap_err().to_string();
    assert!(errors.contains("there is no tenant"), "{errors}");
    let errors = in_directory(Path::new("/nonexistent/x"), "").unwrap_err().to_string();
    assert!(errors.contains("tenants.directory"), "{errors}");
}

#[test]
fn command_prints_toml_or_json() {
    let dir = tempfile::tempdir().unwrap();
    let toml = script(dir.path(), &format!("cat <<'E'\n{}E", entry("a")));
    assert_eq!(names(&resolved(&toml).unwrap()), ["a"]);
    let json = format!(
        "echo '{{\"tenant\": [{{\"name\": \"j\", \"token_sha256\": [\"{}\"]}}]}}'",
        TokenHash::of("j")
    );
    assert_eq!(names(&resolved(&script(dir.path(), &json)).unwrap()), ["j"]);
    // Nothing but tenants, and little of the environment.
    for (body, why) in [
        ("echo '[sandbox]'; echo 'mode = \"off\"'", "sandbox: only [[tenant]]"),
        ("exit 3", "exit status: 3"),
        ("echo {", "printed no JSON"),
        ("head -c 9000000 /dev/zero", "printed more than"),
        ("test -z \"$HOME$CARGO\" && echo 'x = 1'", "x: no such section"),
        ("printf '\\377'", "not UTF-8"),
        ("true", "there is no tenant"),
    ] {
        let errors = resolved(&script(dir.path(), body)).unwrap_err().to_string();
        assert!(errors.contains(why), "{body}: {errors}");
    }
}

#[test]
fn command_that_hangs_is_killed_with_what_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let hanging = script(dir.path(), "sleep 60 & sleep 60");
    let errors = resolved(&hanging).unwrap_err().to_string();
    assert!(errors.contains("was not done within 2s"), "{errors}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn other_programs_than_the_daemon_read_no_other_source() {
    let text = "[tenants]\ncommand = [\"/nonexistent\"]\n[server]\nlisten = [\"0.0.0.0:1\"]\n";
    let file = File { path: "/etc/main.toml".into(), text: text.to_owned() };
    assert!(resolve(&Sources { file: Some(file), ..Sources::default() }).is_ok());
}
