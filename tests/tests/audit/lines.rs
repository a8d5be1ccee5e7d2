//! What the log has of everything that happens, and what it never has.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::json;
use vivarium_tests::http::Client;
use vivarium_tests::program;
use vivarium_tests::tenants::{Token, entry};

use super::{lines, of_event, place, setup, verify};

#[test]
fn every_execution_of_many_at_once_is_in_the_log_before_it_is_answered() {
    let place = place();
    let at = place.path().join("audit");
    let daemon = setup(&at, "").start();
    std::thread::scope(|scope| {
        for client in 0..8 {
            let (daemon, at) = (&daemon, &at);
            scope.spawn(move || {
                let session = daemon.session_with(&json!({"id": format!("s{client}")}));
                for number in 1..=25 {
                    drop(session.execute(&format!("{client} + {number}")));
                    // Answered, so it is there: `each`.
                    let file = fs::read_to_string(at.join("audit-000001.jsonl")).unwrap();
                    let ended = format!(
                        r#""event":"execution_ended","tenant":"default","session":"s{client}","execution":{number},"#
                    );
                    assert!(file.contains(&ended), "s{client} {number}");
                }
            });
        }
    });
    let file = fs::metadata(at.join("audit-000001.jsonl")).unwrap();
    assert_eq!(file.mode() & 0o777, 0o600);
    daemon.stop_and_check();
    let (intact, report) = verify(&at, &[]);
    assert!(intact, "{report}");
    let all = lines(&at);
    assert_eq!(of_event(&all, "execution_started").len(), 200);
    assert_eq!(of_event(&all, "execution_ended").len(), 200);
    assert_eq!(of_event(&all, "session_created").len(), 8);
    assert_eq!(of_event(&all, "session_ended").len(), 8);
    assert_eq!(all.last().unwrap()["event"], "daemon_stopped");
    let one = of_event(&all, "execution_ended")[0];
    assert_eq!((&one["status"], &one["kind"]), (&json!("ok"), &json!("code")));
    assert!(one["limits"]["max_procs"].is_u64() && one["usage"]["cpu_ms"].is_u64(), "{one}");
}

#[test]
fn commands_refusals_and_ends_are_told_with_their_cause() {
    let place = place();
    let at = place.path().join("audit");
    let offered = "allowed = [\"session\", \"tenant\", \"volumes\"]";
    let daemon = setup(&at, "").config("homes", offered).start();
    let session = daemon.session_with(&json!({"id": "s"}));
    drop(session.command(&json!({"argv": ["sh", "-c", "exit 3"]})));
    drop(session.execute_for(300, "while True: pass"));
    drop(session.execute("import os; os._exit(7)"));
    drop(daemon.run(&json!({"code": "1/0"})));
    // Homes and volumes: who had which, and when they came and went.
    let volume = json!({"name": "v"});
    assert_eq!(daemon.request("POST", "/v1/volumes", Some(&volume)).status, 201);
    daemon.request("POST", "/v1/volumes", Some(&volume)).expect_problem(409, "volume_exists");
    let mounted = json!([{"name": "v", "path": "/mnt/in", "read_only": true}]);
    let spec = json!({"id": "h", "home": "session", "volumes": mounted});
    let at_home = daemon.session_with(&spec);
    daemon.request("DELETE", "/v1/volumes/v", None).expect_problem(409, "volume_in_use");
    assert_eq!(at_home.request("DELETE", "", None).status, 204);
    for path in ["/v1/volumes/v", "/v1/homes/h"] {
        assert_eq!(daemon.request("DELETE", path, None).status, 204);
    }
    daemon.stop_and_check();
    let all = lines(&at);
    let of_stores = all.iter().filter(|line| line["event"] == "home" || line["event"] == "volume");
    let told: Vec<_> = of_stores
        .map(|line| [&line["event"], &line["tenant"], &line["name"], &line["change"]])
        .collect();
    let expected = [
        ["volume", "default", "v", "created"],
        ["home", "default", "h", "created"],
        ["volume", "default", "v", "removed"],
        ["home", "default", "h", "removed"],
    ];
    assert_eq!(json!(told), json!(expected));
    let created = of_event(&all, "session_created");
    let of = |id: &str| *created.iter().find(|line| line["session"] == id).unwrap();
    assert_eq!((&of("h")["home"], &of("h")["volumes"]), (&json!("h"), &mounted));
    assert!(of("s").get("home").is_none() && of("s").get("volumes").is_none(), "{created:?}");
    let dir = at.to_str().unwrap();
    let export = ["audit", "export", "--format", "csv", "--event", "volume", "--dir", dir];
    let csv = program::run(&export).expect_code(0).stdout();
    let ends: Vec<_> = csv.lines().collect();
    let columns = ",result,outcome,by,reason,environment,network,name,change,image,checkpoint,from";
    assert!(ends[0].ends_with(columns) && ends[2].ends_with(",v,removed,,,"), "{csv}");
    let ended = of_event(&all, "execution_ended");
    let told: Vec<_> = ended.iter().map(|l| (l["kind"].as_str(), l["status"].as_str())).collect();
    let (code, command) = (Some("code"), Some("command"));
    assert_eq!(
        told,
        [
            (command, Some("error")),
            (code, Some("timed_out")),
            (code, Some("killed")),
            (code, Some("error"))
        ],
        "{ended:?}"
    );
    assert_eq!(ended[0]["exit_code"], 3);
    assert_eq!((&ended[1]["cause"], &ended[2]["cause"]), (&json!("wall_time"), &json!("exited")));
    // The hash of a command is that of its arguments, each with a zero byte.
    let hash = "printf 'sh\\0-c\\0exit 3\\0' | sha256sum";
    let hash = std::process::Command::new("sh").arg("-c").arg(hash).output().unwrap().stdout;
    assert_eq!(ended[0]["code_sha256"], String::from_utf8_lossy(&hash)[..64]);
}

#[test]
fn no_secret_is_in_the_log_and_no_tenant_makes_a_line_of_their_own() {
    let place = place();
    let at = place.path().join("audit");
    let token = Token::new();
    let daemon = setup(&at, "").config("[tenant]", &entry("one", &token, ""));
    let daemon = daemon.start();
    let unix = daemon.unix();
    let secret = "hunter2-in-a-variable";
    let spec = json!({"id": "s", "env": {"PASSWORD": secret}, "metadata": {"a": "b\n{\"seq\":1}"}});
    drop(token.ask(&unix, "POST", "/v1/sessions", Some(&spec)).expect_success());
    let code = format!("x = '{secret}-in-code'\nprint(x)\n# \n{{\"seq\":99,\"event\":\"admin\"}}");
    let path = "/v1/sessions/s/execute";
    let request = json!({"code": code, "env": {"OTHER": secret}});
    drop(token.ask(&unix, "POST", path, Some(&request)).expect_success());
    let wrong = Token::new();
    for _ in 0..50 {
        drop(wrong.ask(&unix, "GET", "/v1/sessions", None).expect_problem(401, "unauthenticated"));
    }
    let hostile = json!({"id": "a\nb"});
    assert_ne!(token.ask(&unix, "POST", "/v1/sessions", Some(&hostile)).status, 201);
    // Nor is the log among the files of a session, or anything a request leads to.
    let look = format!("open({:?}).read()", at.join("audit-000001.jsonl"));
    let answer = token.ask(&unix, "POST", path, Some(&json!({"code": look}))).expect_success();
    assert_eq!(answer["status"], "error", "{answer}");
    assert!(Client::connect(&unix).json("GET", "/v1/audit", None).status >= 400);
    daemon.stop_and_check();
    let text = fs::read_to_string(at.join("audit-000001.jsonl")).unwrap();
    for secret in [secret, token.text.as_str(), token.hash.as_str(), wrong.text.as_str()] {
        assert!(!text.contains(secret), "{secret}");
    }
    let (intact, report) = verify(&at, &[]);
    assert!(intact, "{report}");
    let all = lines(&at);
    assert_eq!(all.len(), text.lines().count());
    assert!(of_event(&all, "admin").is_empty());
    assert!((1..10).contains(&of_event(&all, "auth_failed").len()));
    assert!(of_event(&all, "execution_ended").iter().all(|line| line["tenant"] == "one"));
}

#[test]
fn code_and_output_are_kept_if_asked_for_in_part() {
    let place = place();
    let at = place.path().join("audit");
    let daemon = setup(&at, "capture_code = true\ncapture_output = true").start();
    drop(daemon.run(&json!({"code": "print('é' * 100_000) # seen"})));
    daemon.stop_and_check();
    let all = lines(&at);
    assert_eq!(
        of_event(&all, "execution_started")[0]["code"]["text"],
        "print('é' * 100_000) # seen"
    );
    let stdout = &of_event(&all, "execution_ended")[0]["stdout"];
    assert_eq!(
        (stdout["text"].as_str().unwrap().len(), &stdout["truncated"]),
        (65536, &json!(true))
    );
    assert!(verify(&at, &[]).0);
}

#[test]
fn the_log_rotates_under_load_and_is_read_with_filters() {
    let place = place();
    let at = place.path().join("audit");
    let daemon = setup(&at, "rotate_mb = 1\nkeep = 2\ncapture_code = true\nfsync = \"1s\"").start();
    let session = daemon.session_with(&json!({"id": "s"}));
    let filling = "x".repeat(60_000);
    for number in 0..60 {
        drop(session.execute(&format!("# {filling}\n{number}")));
    }
    daemon.stop_and_check();
    let (intact, report) = verify(&at, &[]);
    assert!(intact && report["files"] == 2, "{report}");
    assert!(report["first_seq"].as_u64().unwrap() > 1);
    let dir = at.to_str().unwrap();
    let last = program::run(&["audit", "tail", "-n", "1", "--dir", dir]).expect_code(0).stdout();
    assert!(last.contains(r#""event":"daemon_stopped""#), "{last}");
    let csv = ["audit", "export", "--format", "csv", "--event", "session_ended", "--dir", dir];
    let csv = program::run(&[&csv[..], &["--session", "s", "--since", "1h"]].concat());
    let csv = csv.expect_code(0).stdout();
    assert_eq!(csv.lines().count(), 2, "{csv}");
    let none = ["audit", "grep", "file_opened", "--tenant", "other", "--dir", dir];
    assert_eq!(program::run(&none).expect_code(0).stdout(), "");
}
