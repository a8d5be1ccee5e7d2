//! Tools of the operator's servers of MCP: the official SDK's server, in both ages of the protocol, and
//! another daemon of ours.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::http::Endpoint;
use vivarium_tests::tenants::{RELOADED, Token, entry, reload, two};
use vivarium_tests::{Setup, program, wait};

use super::until;

const SECRET: &str = "Bearer s3cret-of-the-operator";

const AGES: [&str; 2] = ["new", "old"];

/// A server of the SDK's.
struct Server {
    process: Child,
    port: u16,
    secret: tempfile::TempDir,
}

impl Server {
    /// None where there is no SDK.
    fn start(age: &str) -> Option<Self> {
        if !host::has(&[Requirement::McpSdk]) {
            return None;
        }
        let script = program::workspace().join("tests/tests/calls/server.py");
        let mut process = Command::new(host::tool("python").unwrap())
            .arg(script)
            .arg(age)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let secret = program::temp_dir();
        let file = secret.path().join("value");
        fs::write(&file, format!("{SECRET}\n")).unwrap();
        fs::set_permissions(secret.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        Some(Self { process, port: port.trim().parse().unwrap(), secret })
    }

    fn config(&self) -> String {
        let (port, file) = (self.port, self.secret.path().join("value"));
        format!(
            "mcp = \"http://127.0.0.1:{port}/mcp\"\nvalue_file = {file:?}\n\
             allow_addresses = [\"127.0.0.1\"]"
        )
    }

    /// A daemon whose sessions may have it.
    fn setup(&self, more: &str) -> Setup {
        Setup::default()
            .config("tools.judge", &format!("{}\n{more}", self.config()))
            .config("session", "tool_servers = [\"judge\"]")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn calling(code: &str) -> Value {
    let code = format!("import vivarium\nfrom vivarium import tools\n{code}");
    json!({"code": code, "tool_servers": ["judge"]})
}

#[test]
fn code_calls_the_tools_of_a_server_in_both_ages() {
    for age in AGES {
        let Some(server) = Server::start(age) else { return };
        let daemon = server.setup("").start();
        let session = daemon.session();
        let value = |code: &str| {
            let outcome = session.execute_with(&calling(code));
            assert_eq!(outcome.status(), "ok", "{age}: {outcome:?}");
            outcome.result().to_owned()
        };
        assert_eq!(value("tools.judge_add(2, b=3)"), "{'result': 5}", "{age}");
        assert_eq!(value("tools.judge_say_it('hi')"), "'hi'");
        let documented = value("tools.judge_say_it.__doc__");
        assert!(documented.starts_with("'Repeats a text."), "{documented}");
        assert_eq!(value("tools.judge_picture()[0]['type']"), "'image'");
        let gathered = "import asyncio\n\
                        add = tools.aio.judge_add\n\
                        [one['result'] for one in await asyncio.gather(*[add(n) for n in range(20)])]";
        assert_eq!(value(gathered), format!("{:?}", (1..21).collect::<Vec<_>>()));
        let raised = |code: &str, kind: &str| {
            let code =
                format!("try:\n    {code}\nexcept vivarium.{kind} as error:\n    print(error)");
            let outcome = session.execute_with(&calling(&code));
            assert_eq!(outcome.status(), "ok", "{age}: {outcome:?}");
            outcome.stdout().to_owned()
        };
        for (code, kind, said) in [
            ("tools.judge_fail()", "ToolError", "tool fail"),
            ("tools.judge_large()", "ToolError", "over"),
            ("tools.judge_add(a='x')", "ToolRefused", "a: "),
            ("tools.judge_none()", "ToolUnavailable", "judge_none"),
        ] {
            let words = raised(code, kind);
            assert!(words.contains(said), "{age}, {code}: {words}");
        }
        // Without asking for the server there is none.
        let without = json!({"code": "from vivarium import tools; tools.judge_say_it('hi')"});
        assert_eq!(session.execute_with(&without).status(), "error");
        daemon.stop_and_check();
    }
}

#[test]
fn a_server_gets_the_secret_and_a_session_of_its_own_for_each_execution() {
    for age in AGES {
        let Some(server) = Server::start(age) else { return };
        let daemon = server.setup("").start();
        let session = daemon.session();
        let code = "import json\n\
                    all = [json.loads(tools.judge_headers()) for _ in range(2)]\n\
                    ids = {one.get('mcp-session-id') for one in all}\n\
                    print(all[0]['authorization'], len(ids), ids.pop())\n\
                    import os; print(sum('s3cret' in value for value in os.environ.values()))";
        let said = |_| {
            let outcome = session.execute_with(&calling(code));
            assert_eq!(outcome.status(), "ok", "{age}: {outcome:?}");
            let mut lines = outcome.stdout().lines().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(lines.pop().unwrap(), "0");
            lines.pop().unwrap()
        };
        let [first, second] = [1, 2].map(said);
        assert!(first.starts_with(&format!("{SECRET} 1 ")), "{age}: {first}");
        assert_eq!(first != second, age == "old", "{age}: {first} {second}");
        assert_eq!(first.ends_with(" None"), age == "new", "{age}: {first}");
        assert!(!daemon.log().contains("s3cret"));
        daemon.stop_and_check();
    }
}

#[test]
fn calls_of_servers_are_none_of_the_clients() {
    let Some(server) = Server::start("new") else { return };
    let daemon = server.setup("").start();
    let session = daemon.session();
    let mut request = calling("tools.judge_slow()");
    request["tools"] = json!([{"name": "own"}]);
    let mut events = session.stream_with("/execute", &[], &request);
    events.expect("started");
    // Until it is under way.
    let opened = "vivarium_tool_calls_opened_total{tenant=\"default\"} 1";
    wait::until_true("the call", || {
        let metrics = daemon.request("GET", "/metrics", None).body;
        String::from_utf8(metrics).unwrap().contains(opened)
    });
    let calls = session.request("GET", "/executions/1/calls", None).expect_success();
    assert_eq!(calls, json!({"calls": []}));
    let path = "/executions/1/calls/1";
    let forged = json!({"result": "forged"});
    session.request("POST", path, Some(&forged)).expect_problem(404, "unknown_call");
    session.interrupt();
    let exception = until(&mut events, "error");
    assert_eq!(exception.data["type"], "KeyboardInterrupt");
    session.request("POST", path, Some(&forged)).expect_problem(404, "unknown_call");
    // The control: a call of a tool of the client's.
    request["code"] = json!("from vivarium import tools; tools.own()");
    let mut events = session.stream_with("/execute", &[], &request);
    let call = until(&mut events, "call");
    super::result(&session, &call, &json!(1));
    until(&mut events, "done");
    daemon.stop_and_check();
}

#[test]
fn a_slow_server_is_a_timeout_and_the_clock_of_code_stands_still() {
    let Some(server) = Server::start("old") else { return };
    let daemon = server.setup("timeout = \"3s\"").start();
    let session = daemon.session();
    let mut request =
        calling("try: tools.judge_slow()\nexcept vivarium.ToolTimeout: print('late')");
    request["timeout_ms"] = json!(2000);
    let begun = Instant::now();
    let outcome = session.execute_with(&request);
    assert_eq!((outcome.status(), outcome.stdout()), ("ok", "late\n"), "{outcome:?}");
    assert!(begun.elapsed().as_secs() >= 3);
    // It is the same for each of many.
    let code = "import asyncio\n\
                slow = [tools.aio.judge_slow() for _ in range(20)]\n\
                raised = await asyncio.gather(*slow, return_exceptions=True)\n\
                {type(one).__name__ for one in raised}";
    assert_eq!(session.execute_with(&calling(code)).result(), "{'ToolTimeout'}");
    daemon.stop_and_check();
}

#[test]
fn tenants_have_the_servers_that_they_are_granted() {
    let Some(server) = Server::start("new") else { return };
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(
        &entry("one", &one, "[tenant.session]\ntool_servers = [\"judge\"]"),
        &entry("other", &other, ""),
    );
    let daemon = Setup::default()
        .config("tools.judge", &format!("{}\nonly = [\"say-it\"]", server.config()))
        .config("environments.bare", "tools = false")
        .config("[tenant]", &tenants)
        .start();
    let at = daemon.unix();
    let request = calling("print([name for name in dir(tools) if name[0] != '_'])");
    let done = one.ask(&at, "POST", "/v1/run", Some(&request)).expect_success();
    assert_eq!(done["stdout"], "['aio', 'judge_say_it']\n", "{done}");
    // What is not granted is as what is not there.
    let problem = |token: &Token, name: &str| {
        let request = json!({"code": "1", "tool_servers": [name]});
        let refused = token.ask(&at, "POST", "/v1/run", Some(&request));
        let problem = refused.expect_problem(422, "invalid_field");
        assert_eq!(problem["field"], "tool_servers");
        problem["detail"].as_str().unwrap().replace(name, "NAME")
    };
    assert_eq!(problem(&other, "judge"), problem(&one, "nobody"));
    let create = json!({"tool_servers": ["judge"]});
    other.ask(&at, "POST", "/v1/sessions", Some(&create)).expect_problem(422, "invalid_field");
    let mut bare = request.clone();
    bare["environment"] = json!("bare");
    one.ask(&at, "POST", "/v1/run", Some(&bare)).expect_problem(422, "invalid_field");
    // A session's, until the grant is taken back.
    let create = json!({"id": "a", "tool_servers": ["judge"]});
    assert_eq!(one.ask(&at, "POST", "/v1/sessions", Some(&create)).status, 201);
    let call = "from vivarium import tools; tools.judge_say_it(text='hi')";
    assert_eq!(one.execute(&at, "a", call)["result"]["repr"], "'hi'");
    let config = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    reload(&daemon, &config.replace("tool_servers = [\"judge\"]", "tool_servers = []"), RELOADED);
    let refused = one.ask(&at, "POST", "/v1/sessions/a/execute", Some(&json!({"code": call})));
    refused.expect_problem(422, "invalid_field");
    daemon.stop_and_check();
}

#[test]
fn a_server_that_cannot_be_used_is_named() {
    let Some(server) = Server::start("new") else { return };
    let strict = server.config().replace("allow_addresses", "# allow_addresses");
    let nobody = "mcp = \"http://127.0.0.1:1/mcp\"\nallow_addresses = [\"127.0.0.1\"]";
    let other = server.config().replace("/mcp\"", "/none\"");
    let daemon = Setup::default()
        .config("tools.strict", &strict)
        .config("tools.nobody", nobody)
        .config("tools.other", &other)
        .config("tools.judge", &server.config())
        .config("session", "tool_servers = [\"strict\", \"nobody\", \"other\", \"judge\"]")
        .start();
    for name in ["strict", "nobody", "other"] {
        let request = json!({"code": "1", "tool_servers": [name]});
        let refused = daemon.request("POST", "/v1/run", Some(&request));
        let problem = refused.expect_problem(502, "tool_server_unavailable");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(name) && !detail.contains("127.0.0.1"), "{detail}");
        assert_eq!(detail.contains("allow_addresses"), name == "strict", "{detail}");
    }
    // The control.
    assert_eq!(daemon.run(&calling("tools.judge_say_it('hi')")).result(), "'hi'");
    daemon.stop_and_check();
}

#[test]
fn a_secret_that_the_daemon_cannot_read_is_noticed_at_start_and_reload() {
    let Some(server) = Server::start("new") else { return };
    let file = server.secret.path().join("value");
    let readable = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&file, " \n").unwrap();
    let (_, log) = server.setup("").try_start().expect_err("an empty secret");
    assert!(log.contains("tools.judge"), "{log}");
    fs::write(&file, SECRET).unwrap();
    let daemon = server.setup("").start();
    let config = fs::read_to_string(daemon.dir().join("vivarium.toml")).unwrap();
    fs::rename(&file, file.with_extension("away")).unwrap();
    reload(&daemon, &config, "not reloaded");
    fs::rename(file.with_extension("away"), &file).unwrap();
    readable(0o644);
    reload(&daemon, &config, RELOADED);
    assert_eq!(daemon.run(&calling("tools.judge_say_it('hi')")).result(), "'hi'");
    daemon.stop_and_check();
}

#[test]
fn another_daemon_can_be_the_server() {
    let server = Setup::default().config("dialects", "mcp = true").start();
    let Endpoint::Tcp(port) = server.tcp() else { unreachable!() };
    let config =
        format!("mcp = \"http://127.0.0.1:{port}/mcp\"\nallow_addresses = [\"127.0.0.1\"]");
    let daemon = Setup::default()
        .config("tools.judge", &config)
        .config("session", "tool_servers = [\"judge\"]")
        .start();
    let outcome = daemon.run(&calling("tools.judge_run_python(code='6 * 7')['result']['repr']"));
    assert_eq!(outcome.result(), "'42'", "{outcome:?}");
    daemon.stop_and_check();
    server.stop_and_check();
}

#[test]
fn servers_are_checked_as_they_are_configured() {
    for (section, lines, said) in [
        ("tools.a", "timeout = \"1s\"", "tools.a.mcp: is missing"),
        ("tools.a", "mcp = \"ftp://a\"", "tools.a.mcp:"),
        ("tools.a", "mcp = \"https://user@a\"", "tools.a.mcp:"),
        ("tools.a", "mcp = \"https://a\"\nheader = \"Host\"", "tools.a.header:"),
        ("tools.A", "mcp = \"https://a\"", "a name is"),
        ("session", "tool_servers = [\"a\"]", "there is no tool server \"a\""),
    ] {
        let refused = Setup::default().config(section, lines).try_start();
        let (_, log) = refused.expect_err(lines);
        assert!(log.contains(said), "{lines}: {log}");
    }
    let fine =
        Setup::default().config("tools.a", "mcp = \"https://a\"\nheader = \"X-Key\"").start();
    fine.stop_and_check();
}
