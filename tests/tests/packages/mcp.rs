//! `install_packages` of the MCP dialect, where sessions can install and where they cannot.

use serde_json::{Value, json};
use vivarium_tests::http::Client;
use vivarium_tests::{Daemon, Setup};

use crate::gate;

fn ask(daemon: &Daemon, method: &str, params: &Value) -> Value {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = Client::connect(&daemon.tcp()).json("POST", "/mcp", Some(&message));
    answer.expect_success()["result"].clone()
}

fn tool(daemon: &Daemon, name: &str, arguments: &Value) -> Value {
    ask(daemon, "tools/call", &json!({"name": name, "arguments": arguments}))
}

fn is_listed(daemon: &Daemon) -> bool {
    let listed = ask(daemon, "tools/list", &json!({}));
    let mut tools = listed["tools"].as_array().unwrap().iter();
    tools.any(|tool| tool["name"] == "install_packages")
}

#[test]
fn agent_installs_where_its_sessions_can() {
    let stock = gate::stock();
    let packages = format!("find_links = [{:?}]", stock.path());
    let networks = "allowed_networks = [\"loopback\", \"trusted\"]\nnetwork = ";
    let start = |network: &str| {
        Setup::default()
            .config("environments.default", "interpreter = \"/usr/bin/python3\"")
            .config("sandbox", &format!("{networks}{network:?}"))
            .config("packages", &packages)
            .config("dialects", "mcp = true")
            .start()
    };
    let daemon = start("trusted");
    assert!(is_listed(&daemon));
    let installed = tool(&daemon, "install_packages", &json!({"packages": ["app"]}));
    assert_eq!(installed["isError"], false, "{installed}");
    let session = &installed["structuredContent"]["session"];
    let code = json!({"code": "import app, tiny; app.VERSION, tiny.VERSION", "session": session});
    let ran = tool(&daemon, "run_python", &code);
    assert_eq!(ran["structuredContent"]["result"]["repr"], "('1.0', '1.0')", "{ran}");
    // What looks like an option is a package that there is not.
    for packages in [json!(["--upgrade"]), json!(["none-such"])] {
        let arguments = json!({"packages": packages, "session": session});
        assert_eq!(tool(&daemon, "install_packages", &arguments)["isError"], true, "{packages}");
    }
    daemon.stop_and_check();

    let daemon = start("loopback");
    assert!(!is_listed(&daemon));
    daemon.stop_and_check();
}
