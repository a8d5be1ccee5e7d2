//! Tenants: whose a request is, what it sees of others, and what a reload changes.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use vivarium_tests::http::{Client, Endpoint};
use vivarium_tests::program::{self, Runner};
use vivarium_tests::tenants::{RELOADED, Token, ask, entry, reload, two};
use vivarium_tests::{Setup, wait};

#[test]
fn a_request_without_a_tenants_token_is_refused() {
    let token = Token::new();
    let daemon = Setup::default().config("[tenant]", &entry("one", &token, "")).start();
    for at in [daemon.tcp(), daemon.unix()] {
        for (method, path) in [
            ("GET", "/v1/host"),
            ("GET", "/v1/sessions"),
            ("POST", "/v1/run"),
            ("GET", "/v1/sessions/a"),
        ] {
            let answer = Client::connect(&at).json(method, path, None);
            answer.expect_problem(401, "unauthenticated");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            let other = Token::new();
            for wrong in [
                format!("Bearer {}", other.text),
                format!("Bearer {}", token.hash),
                format!("Bearer {}x", token.text),
                format!("Basic {}", token.text),
                token.text.clone(),
            ] {
                let answer = ask(&at, &wrong, method, path, None);
                answer.expect_problem(401, "unauthenticated");
                assert!(answer.header("www-authenticate").unwrap().contains("invalid_token"));
            }
        }
        assert_eq!(token.ask(&at, "GET", "/v1/sessions", None).status, 200);
        let ran = token.ask(&at, "POST", "/v1/run", Some(&json!({"code": "6 * 7"})));
        assert_eq!(ran.expect_success()["result"]["repr"], "42");
        for open in ["/healthz", "/readyz", "/openapi.json", "/metrics"] {
            assert_eq!(Client::connect(&at).json("GET", open, None).status, 200, "{open}");
        }
    }
    daemon.stop_and_check();
}

#[test]
fn tenants_with_sessions_of_equal_ids_see_their_own() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, ""), &entry("other", &other, ""));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let at = daemon.unix();
    for (token, tenant) in [(&one, "one"), (&other, "other")] {
        let made = token.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "a"})));
        assert_eq!(made.expect_success()["tenant"], tenant);
        token.execute(&at, "a", &format!("x = {tenant:?}; open('file', 'w').write(x)"));
        let scope = daemon.cgroup().map(|tree| tree.join("tenants").join(tenant).join("a"));
        assert!(scope.is_none_or(|scope| scope.is_dir()), "{tenant}");
    }
    let made = one.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "mine"})));
    assert_eq!(made.status, 201);
    for (token, tenant, count) in [(&one, "one", 2), (&other, "other", 1)] {
        let told = token.execute(&at, "a", "x, open('file').read()");
        assert_eq!(told["result"]["repr"], format!("('{tenant}', '{tenant}')"));
        let listed = token.ask(&at, "GET", "/v1/sessions", None).expect_success();
        assert_eq!(listed["sessions"].as_array().unwrap().len(), count);
    }
    for (method, rest) in [
        ("GET", ""),
        ("DELETE", ""),
        ("POST", "/reset"),
        ("POST", "/interrupt"),
        ("POST", "/keepalive"),
    ] {
        let answer = other.ask(&at, method, &format!("/v1/sessions/mine{rest}"), None);
        answer.expect_problem(404, "unknown_session");
    }
    assert_eq!(other.ask(&at, "DELETE", "/v1/sessions/a", None).status, 204);
    assert_eq!(one.execute(&at, "a", "x")["result"]["repr"], "'one'");
    let metrics = Client::connect(&at).json("GET", "/metrics", None);
    let metrics = String::from_utf8(metrics.body).unwrap();
    assert!(metrics.contains(r#"vivarium_sessions{state="idle",tenant="one"} 2"#), "{metrics}");
    daemon.stop_and_check();
}

#[test]
fn a_reload_lets_tenants_in_and_out_and_what_they_run_goes_on() {
    let (gone, new, kept) = (Token::new(), Token::new(), Token::new());
    let tenants = two(&entry("gone", &gone, ""), &entry("kept", &kept, ""));
    let daemon = Setup::default().config("[tenant]", &tenants).start();
    let at = daemon.unix();
    let before = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    for token in [&gone, &kept] {
        let made = token.ask(&at, "POST", "/v1/sessions", Some(&json!({"id": "a"})));
        assert_eq!(made.status, 201);
        token.execute(&at, "a", "x = 1");
    }
    let mut connected = Client::connect(&at);
    let header = format!("Bearer {}", gone.text);
    let headers = [("Authorization", header.as_str())];
    assert_eq!(connected.send("GET", "/v1/host", &headers, None).status, 200);
    let without = before.replace(&tenants, &entry("kept", &kept, "max_sessions = 1"));
    assert_ne!(without, before);
    reload(&daemon, &without, RELOADED);
    // Also on a connection that was there.
    connected.send("GET", "/v1/host", &headers, None).expect_problem(401, "unauthenticated");
    gone.ask(&at, "GET", "/v1/sessions/a", None).expect_problem(401, "unauthenticated");
    let refused = kept.ask(&at, "POST", "/v1/sessions", None);
    refused.expect_problem(429, "too_many_sessions");
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    // The same tenant by another token.
    let back = two(&entry("kept", &kept, ""), &entry("gone", &new, ""));
    reload(&daemon, &before.replace(&tenants, &back), RELOADED);
    assert_eq!(new.execute(&at, "a", "x + 1")["result"]["repr"], "2");
    gone.ask(&at, "GET", "/v1/sessions/a", None).expect_problem(401, "unauthenticated");
    assert_eq!(kept.execute(&at, "a", "x + 1")["result"]["repr"], "2");
    // Without any tenant there is one, and no token is wanted.
    reload(&daemon, &before.replace(&format!("[[tenant]]\n{tenants}"), ""), RELOADED);
    let listed = daemon.request("GET", "/v1/sessions", None).expect_success();
    assert_eq!(listed["sessions"], json!([]));
    daemon.stop_and_check();
}

#[test]
fn tenants_share_the_maximum_and_have_their_own() {
    let (small, large) = (Token::new(), Token::new());
    let tenants = two(&entry("small", &small, "max_sessions = 1"), &entry("large", &large, ""));
    let daemon =
        Setup::default().config("[tenant]", &tenants).config("session", "max_sessions = 3").start();
    let at = daemon.unix();
    let make = |token: &Token| token.ask(&at, "POST", "/v1/sessions", None);
    assert_eq!(make(&small).status, 201);
    make(&small).expect_problem(429, "too_many_sessions");
    let run = small.ask(&at, "POST", "/v1/run", Some(&json!({"code": "1"})));
    run.expect_problem(429, "too_many_sessions");
    for _ in 0..2 {
        assert_eq!(make(&large).status, 201);
    }
    make(&large).expect_problem(429, "too_many_sessions");
    let host = small.ask(&at, "GET", "/v1/host", None).expect_success();
    assert_eq!(
        (&host["capacity"]["sessions"], &host["capacity"]["max_sessions"]),
        (&json!(1), &json!(1))
    );
    daemon.stop_and_check();
}

#[test]
fn a_ceiling_is_held_or_named() {
    let token = Token::new();
    let ceilings = "cpu_weight = 300\ncpu_cores = 1.5\nmax_memory_mb = 500\nmax_procs = 200";
    let daemon = Setup::default().config("[tenant]", &entry("one", &token, ceilings)).start();
    let dir = daemon.cgroup().map(|tree| tree.join("tenants/one"));
    for (key, file, value) in [
        ("cpu_weight", "cpu.weight", "300"),
        ("cpu_cores", "cpu.max", "150000 100000"),
        ("max_memory_mb", "memory.max", "524288000"),
        ("max_procs", "pids.max", "200"),
    ] {
        let held = dir.as_ref().and_then(|dir| fs::read_to_string(dir.join(file)).ok());
        let is_named = daemon.log().contains(&format!("tenant.one.{key}"));
        match held {
            Some(text) => assert!(text.trim() == value && !is_named, "{file}: {text}"),
            None => assert!(is_named, "{key}\n{}", daemon.log()),
        }
    }
    daemon.stop_and_check();
}

#[test]
fn what_is_kept_ready_for_a_tenant_is_within_its_cgroup_and_nobody_elses() {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, "max_sessions = 1"), &entry("other", &other, ""));
    let setup = Setup::default().config("environments.default", "pool_size = 2");
    let daemon = setup.config("[tenant]", &tenants).start();
    let at = daemon.unix();
    let ready = |token: &Token| {
        let host = token.ask(&at, "GET", "/v1/host", None).expect_success();
        host["environments"][0]["pool"]["ready"].clone()
    };
    assert_eq!((ready(&one), ready(&other)), (json!(0), json!(0)), "nobody has used it");
    let root = daemon.cgroup();
    let body = json!({"id": "a"});
    assert_eq!(one.ask(&at, "POST", "/v1/sessions", Some(&body)).status, 201);
    wait::until_true("the tenant's pool", || ready(&one) == 2);
    assert_eq!(ready(&other), 0);
    let scopes = |tenant: &str| {
        let dir = daemon.cgroup()?.join("tenants").join(tenant);
        let names = fs::read_dir(dir).ok()?.map(Result::unwrap);
        let dirs = names.filter(|entry| entry.file_type().unwrap().is_dir());
        Some(dirs.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>())
    };
    if let Some(names) = scopes("one") {
        assert_eq!(names.len(), 3, "{names:?}");
        assert_eq!(names.iter().filter(|name| name.starts_with("pool.")).count(), 2, "{names:?}");
    }
    assert_eq!(scopes("other").unwrap_or_default(), [] as [String; 0]);
    // They count for no max_sessions, and one is the tenant's next.
    let host = one.ask(&at, "GET", "/v1/host", None).expect_success();
    assert_eq!(host["capacity"]["sessions"], 1);
    assert_eq!(one.ask(&at, "DELETE", "/v1/sessions/a", None).status, 204);
    assert_eq!(one.ask(&at, "POST", "/v1/sessions", Some(&body)).status, 201);
    let hits = r#"vivarium_pool_takes_total{environment="default",outcome="hit"} 1"#;
    let metrics = Client::connect(&at).json("GET", "/metrics", None);
    assert!(String::from_utf8(metrics.body).unwrap().contains(hits));
    daemon.stop_and_check();
    for tenant in ["one", "other"] {
        let left = root.as_ref().map(|root| root.join("tenants").join(tenant));
        assert!(left.is_none_or(|dir| !dir.exists()), "{tenant}'s cgroup is left");
    }
}

#[test]
fn others_may_connect_only_where_there_are_tenants() {
    let token = Token::new();
    let open = || Setup::default().config("server", "listen = [\"0.0.0.0:0\"]");
    let (status, log) = open().try_start().err().unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(log.contains("there are no tenants"), "{log}");
    let guarded = || open().config("[tenant]", &entry("one", &token, ""));
    let (status, log) = guarded().config("sandbox", "mode = \"off\"").try_start().err().unwrap();
    assert_eq!(status.code(), Some(2));
    assert!(log.contains("there is no sandbox"), "{log}");
    let daemon = guarded().start();
    wait::until_true("its address", || daemon.log().contains("0.0.0.0:"));
    let log = daemon.log();
    let port = log.split("0.0.0.0:").nth(1).unwrap().split('"').next().unwrap();
    let at = Endpoint::Tcp(port.parse().unwrap());
    Client::connect(&at).json("GET", "/v1/host", None).expect_problem(401, "unauthenticated");
    // By whatever name it was reached.
    let header = format!("Bearer {}", token.text);
    let headers = [("Host", "vivarium.example"), ("Authorization", header.as_str())];
    assert_eq!(Client::connect(&at).send("GET", "/v1/host", &headers, None).status, 200);
    // The last tenant does not go while others can connect.
    let text = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    let without = text.split("[[tenant]]").next().unwrap();
    reload(&daemon, without, "not reloaded");
    Client::connect(&at).json("GET", "/v1/host", None).expect_problem(401, "unauthenticated");
}

/// A daemon that is handed a socket which other hosts can reach (sd_listen_fds(3)).
fn serve_handed_over(config: &str, log: &std::path::Path) -> (Child, Endpoint) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let at = Endpoint::Tcp(listener.local_addr().unwrap().port());
    let vivarium = program::vivarium(&Runner::Self_, log.parent().unwrap());
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    let child = Command::new("/bin/sh")
        .args(["-c", script])
        .arg(vivarium.get_program())
        .args(["serve", "--config", config])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stderr(File::create(log).unwrap())
        .spawn()
        .unwrap();
    (child, at)
}

#[test]
fn a_socket_that_systemd_hands_over_is_no_way_around_tokens() {
    let dir = program::temp_dir();
    let log = dir.path().join("log");
    let said = || fs::read_to_string(&log).unwrap();
    let (mut child, _) = serve_handed_over(&program::config(dir.path(), ""), &log);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    assert!(said().contains("can be reached from other hosts"), "{}", said());
    let token = Token::new();
    let tenants = format!("[[tenant]]\n{}", entry("one", &token, ""));
    let (mut child, at) = serve_handed_over(&program::config(dir.path(), &tenants), &log);
    assert_eq!(token.ask(&at, "GET", "/v1/host", None).status, 200);
    Client::connect(&at).json("GET", "/v1/host", None).expect_problem(401, "unauthenticated");
    // Nor is a reload.
    let _same = program::config(dir.path(), "");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGHUP).unwrap();
    wait::until_true("a complaint", || said().contains("not reloaded"));
    Client::connect(&at).json("GET", "/v1/host", None).expect_problem(401, "unauthenticated");
    kill(pid, Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn the_command_line_presents_its_token() {
    let token = Token::new();
    let daemon = Setup::default().config("[tenant]", &entry("one", &token, "")).start();
    let dir = program::temp_dir();
    let vivarium = |arguments: &[&str], token: Option<&str>| {
        let mut command = program::vivarium(&Runner::Self_, dir.path());
        command.args(arguments).env("VIVARIUM_URL", daemon.unix().url());
        command.envs(token.map(|token| ("VIVARIUM_TOKEN", token)));
        program::finish(&mut command, "")
    };
    let run = ["run", "--quiet", "-c", "print(6 * 7)"];
    assert_eq!(vivarium(&run, Some(&token.text)).expect_code(0).stdout(), "42\n");
    let made = vivarium(&["exec", "--create", "a", "-c", "x = 1"], Some(&token.text));
    assert_eq!(made.code(), 0, "{made:?}");
    let listed = vivarium(&["sessions", "list"], Some(&token.text)).expect_code(0).stdout();
    assert!(listed.contains('a'), "{listed}");
    for command in [&run[..], &["exec", "a", "-c", "x"], &["sessions", "list"]] {
        let refused = vivarium(command, None).expect_code(2).stderr();
        assert!(refused.contains("set VIVARIUM_TOKEN"), "{refused}");
        let wrong = vivarium(command, Some(&Token::new().text)).expect_code(2).stderr();
        assert!(wrong.contains("no token of its tenants"), "{wrong}");
    }
    daemon.stop_and_check();
}

#[test]
fn no_token_is_logged_or_kept() {
    let token = Token::new();
    let setup = Setup::default().env("VIVARIUM_LOG", "trace");
    let daemon = setup.config("[tenant]", &entry("one", &token, "")).start();
    let at = daemon.tcp();
    assert_eq!(token.ask(&at, "GET", "/v1/host", None).status, 200);
    let wrong = Token::new();
    wrong.ask(&at, "GET", "/v1/host", None).expect_problem(401, "unauthenticated");
    // Where a token is given for a hash.
    let config = daemon.dir().join("vivarium.toml");
    let text = fs::read_to_string(&config).unwrap();
    reload(&daemon, &text.replace(&token.hash, &wrong.text), "not reloaded");
    let ran =
        token.ask(&at, "POST", "/v1/run", Some(&json!({"code": "import os; dict(os.environ)"})));
    let log = daemon.log();
    for secret in [&token.text, &wrong.text] {
        assert!(!log.contains(secret.as_str()), "{log}");
        assert!(!ran.expect_success().to_string().contains(secret.as_str()));
    }
    daemon.stop_and_check();
}
