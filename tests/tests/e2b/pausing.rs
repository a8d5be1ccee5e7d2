//! Pausing sandboxes and connecting to them again, which takes images.

use serde_json::{Value, json};
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, wait};

use super::{Api, DAEMON, ENVD, Sandbox, switched_on};

fn with_images() -> (Daemon, Token, Token) {
    let (owner, stranger) = (Token::new(), Token::new());
    let tenants = two(&entry("owner", &owner, ""), &entry("stranger", &stranger, ""));
    let daemon = switched_on()
        .config("environments.default", "template = \"auto\"\nimages = true")
        .config("[tenant]", &tenants)
        .start();
    daemon.until_logged("template ready");
    (daemon, owner, stranger)
}

fn pause(api: &Api, sandbox: &Sandbox) -> u16 {
    api.ask("POST", &format!("/sandboxes/{}/pause", sandbox.id), Some(&json!({}))).status
}

fn shown(api: &Api, sandbox: &Sandbox) -> Value {
    api.ask("GET", &format!("/sandboxes/{}", sandbox.id), None).expect_success()
}

#[test]
fn what_is_paused_goes_on_when_its_client_connects() {
    let (daemon, owner, stranger) = with_images();
    let (api, theirs) = (Api::of(&daemon, &owner.text), Api::of(&daemon, &stranger.text));
    let sandbox = api.create(&json!({"timeout": 60}));
    let lines = sandbox.lines("x = [1, 2]; open('kept', 'w').write('text')");
    assert_eq!(lines.last().unwrap()["type"], "end_of_execution", "{lines:?}");
    assert_eq!(pause(&theirs, &sandbox), 404);
    assert_eq!(pause(&api, &sandbox), 204);
    assert_eq!(shown(&api, &sandbox)["state"], "paused");
    // Paused once; it is no running sandbox, and no request wakes it.
    assert_eq!(pause(&api, &sandbox), 409);
    let token = [("X-Access-Token", sandbox.envd.as_str())];
    assert_eq!(sandbox.send(ENVD, "GET", "/health", &token, None).status, 502);
    assert_eq!(sandbox.execute(&json!({"code": "x"})).status, 502);
    let listed = |state: &str| {
        let listed = api.ask("GET", &format!("/v2/sandboxes?state={state}"), None);
        listed.expect_success().as_array().unwrap().len()
    };
    assert_eq!((listed("running"), listed("paused")), (0, 1));
    let connect = format!("/v2/sandboxes/{}/connect", sandbox.id);
    assert_eq!(theirs.ask("POST", &connect, Some(&json!({}))).status, 404);
    let connected = api.ask("POST", &connect, Some(&json!({"timeout": 600})));
    assert_eq!(connected.status, 201, "{connected:?}");
    let again = api.opened(&connected.json());
    assert_eq!(shown(&api, &again)["state"], "running");
    assert_eq!(again.lines("x, open('kept').read()")[1]["text"], "([1, 2], 'text')");
    assert_eq!(api.ask("DELETE", &format!("/sandboxes/{}", sandbox.id), None).status, 204);
    daemon.stop_and_check();
}

#[test]
fn a_sandbox_that_cannot_be_paused_runs_on_until_its_time() {
    let (daemon, owner, _) = with_images();
    let api = Api::of(&daemon, &owner.text);
    let sandbox = api.create(&json!({"timeout": 600}));
    let spec = json!({"process": {"cmd": "sleep", "args": ["1000"]}, "stdin": false}).to_string();
    let headers =
        [("X-Access-Token", sandbox.envd.as_str()), ("Content-Type", "application/connect+json")];
    let mut client = vivarium_tests::http::Client::connect(&sandbox.at);
    let body = super::envelope(0, spec.as_bytes());
    client.ask("POST", "/process.Process/Start", &sandbox.headers(ENVD, &headers), Some(&body));
    assert!(client.receive_head().is_some() && client.chunk().is_some());
    let before = shown(&api, &sandbox);
    let status = pause(&api, &sandbox);
    assert!((400..500).contains(&status), "{status}");
    assert_eq!(shown(&api, &sandbox)["endAt"], before["endAt"]);
    assert_eq!(sandbox.lines("6*7")[1]["text"], "42");
    drop(client);
    let list = || sandbox.call("process.Process/List", &json!({})).expect_success();
    let pid = list()["processes"][0]["pid"].clone();
    let kill = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    drop(sandbox.call("process.Process/SendSignal", &kill).expect_success());
    wait::until_true("it has ended", || list()["processes"] == json!([]));
    assert_eq!(pause(&api, &sandbox), 204);
    daemon.stop_and_check();
}

/// Nothing is paused where the operator has no images: it says so, and goes on.
#[test]
fn without_images_nothing_is_paused() {
    let daemon = DAEMON.hold();
    let api = Api::of(&daemon, "x");
    let sandbox = api.create(&json!({}));
    assert_eq!(pause(&api, &sandbox), 400);
    assert_eq!(sandbox.lines("6*7")[1]["text"], "42");
}
