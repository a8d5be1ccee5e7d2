//! Tokens that are missing, wrong or for less, and what is another tenant's.

use serde_json::json;
use vivarium_tests::Daemon;
use vivarium_tests::tenants::{Token, entry, two};

use super::{Mcp, switched_on};

fn start(owner: &Token, stranger: &Token, more: &str) -> Daemon {
    let tenants = two(&entry("owner", owner, more), &entry("stranger", stranger, ""));
    switched_on().config("[tenant]", &tenants).start()
}

#[test]
fn tokens_are_those_of_the_api() {
    let (owner, stranger) = (Token::new(), Token::new());
    let daemon = start(&owner, &stranger, "");
    let call = || json!({"name": "run_python", "arguments": {"code": "1"}});
    for mcp in [Mcp::of(&daemon), Mcp::with_token(&daemon, "wrong")] {
        for method in ["server/discover", "tools/list", "tools/call", "nonsense"] {
            let answer = mcp.post(method, call());
            answer.expect_problem(401, "unauthenticated");
            assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
        }
    }
    let mcp = Mcp::with_token(&daemon, &owner.text);
    mcp.session();
    let audited = daemon.log();
    assert!(!audited.contains(&owner.text));
    daemon.stop_and_check();
}

#[test]
fn sessions_and_files_of_another_tenant_do_not_exist() {
    let (owner, stranger) = (Token::new(), Token::new());
    let daemon = start(&owner, &stranger, "");
    let [mine, theirs] = [&owner, &stranger].map(|token| Mcp::with_token(&daemon, &token.text));
    let written = mine.does("write_file", json!({"path": "secret", "text": "secret"}));
    let (session, uri) = (&written["session"], &written["uri"]);
    let calls = [
        ("run_python", json!({"code": "open('secret').read()", "session": session})),
        ("run_command", json!({"command": "cat secret", "session": session})),
        ("install_packages", json!({"packages": ["x"], "session": session})),
        ("write_file", json!({"path": "secret", "text": "", "session": session})),
        ("read_file", json!({"path": "secret", "session": session})),
        ("list_files", json!({"session": session})),
        ("reset_session", json!({"session": session})),
        ("end_session", json!({"session": session})),
    ];
    for (tool, arguments) in &calls {
        let mut never = arguments.clone();
        never["session"] = json!("never-was");
        let [said, of_none] = [arguments, &never].map(|all| theirs.refused(tool, all.clone()));
        assert!(said.contains("unknown_session"), "{tool}: {said}");
        let same = of_none.replace("never-was", session.as_str().unwrap());
        assert_eq!(said, same, "{tool} tells another's session from none");
    }
    assert_eq!(theirs.error("resources/read", json!({"uri": uri})).1, -32602);
    assert_eq!(theirs.ask("resources/list", json!({}))["resources"], json!([]));
    assert_eq!(theirs.does("list_sessions", json!({}))["sessions"], json!([]));
    // The control: for its owner each of them does something.
    assert_eq!(mine.ask("resources/read", json!({"uri": uri}))["contents"][0]["text"], "secret");
    for (tool, arguments) in calls.into_iter().filter(|(tool, _)| *tool != "install_packages") {
        assert_eq!(mine.tool(tool, arguments)["isError"], false, "{tool}");
    }
    daemon.stop_and_check();
}

#[test]
fn token_for_reading_runs_nothing() {
    let (owner, reader, stranger) = (Token::new(), Token::new(), Token::new());
    let more = format!("[[tenant.token]]\nhash = {:?}\nscopes = [\"read\"]", reader.hash);
    let daemon = start(&owner, &stranger, &more);
    let [mine, reading] = [&owner, &reader].map(|token| Mcp::with_token(&daemon, &token.text));
    let written = mine.does("write_file", json!({"path": "a", "text": "content"}));
    let session = &written["session"];
    for (tool, arguments) in [
        ("run_python", json!({"code": "1"})),
        ("run_python", json!({"code": "1", "session": session})),
        ("run_command", json!({"command": "true"})),
        ("write_file", json!({"path": "a", "text": "", "session": session})),
        ("reset_session", json!({"session": session})),
        ("end_session", json!({"session": session})),
    ] {
        let said = reading.refused(tool, arguments);
        assert!(said.contains("scope_required"), "{tool}: {said}");
    }
    let read = reading.tool("read_file", json!({"path": "a", "session": session}));
    assert_eq!(read["content"][0]["text"], "content");
    assert_eq!(
        reading.ask("resources/read", json!({"uri": written["uri"]}))["contents"][0]["text"],
        "content"
    );
    daemon.stop_and_check();
}
