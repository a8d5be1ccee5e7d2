//! What the audit log says of images.

use serde_json::{Value, json};
use vivarium_tests::Session;
use vivarium_tests::http::Client;

use crate::{lines, of_event, place, setup};

#[test]
fn what_is_done_with_an_image_is_told() {
    let place = place();
    let at = place.path().join("audit");
    let daemon =
        setup(&at, "").config("environments.default", "template = \"auto\"\nimages = true").start();
    daemon.until_logged("template ready");
    let _made = daemon.request("POST", "/v1/sessions", Some(&json!({"id": "a"}))).expect_success();
    let session = Session::named(&daemon, "a");
    let ask = |path: &str, body: Value| session.request("POST", path, Some(&body)).expect_success();
    let _kept = ask("/checkpoints", json!({"name": "one"}));
    let branches = ask("/branch", json!({"count": 1, "checkpoint": "one"}));
    let branch = branches["sessions"][0]["id"].as_str().unwrap();
    let _back = ask("/rollback", json!({"checkpoint": "one"}));
    let _asleep = session.request("POST", "/suspend", None).expect_success();
    let client = || Client::connect(&daemon.unix());
    let image = client().send("GET", "/v1/images/a/export", &[], None);
    let tar = [("content-type", "application/x-tar")];
    let imported = client().send("POST", "/v1/images?id=b", &tar, Some(&image.body));
    assert_eq!(imported.status, 201);
    assert_eq!(session.value("1"), "1");
    assert_eq!(session.request("DELETE", "/checkpoints/one", None).status, 204);
    assert_eq!(Session::named(&daemon, "b").request("DELETE", "", None).status, 204);
    // What is refused is not told.
    assert_eq!(client().send("GET", "/v1/images/none/export", &[], None).status, 404);
    let ended = branch.to_owned();
    assert_eq!(Session::named(&daemon, &ended).request("DELETE", "", None).status, 204);
    daemon.stop_and_check();

    let all = lines(&at);
    let told = of_event(&all, "image");
    let of = |line: &Value| ["session", "change", "checkpoint", "from"].map(|it| line[it].clone());
    let said: Vec<_> = told.iter().map(|line| of(line)).collect();
    let null = Value::Null;
    let line = |session: &str, change: &str, checkpoint: &Value, from: &Value| {
        [json!(session), json!(change), checkpoint.clone(), from.clone()]
    };
    let (one, a) = (json!("one"), json!("a"));
    let mut expected = vec![
        line("a", "checkpointed", &one, &null),
        line(&ended, "branched", &one, &a),
        line("a", "rolled_back", &one, &null),
        line("a", "suspended", &null, &null),
        line("a", "exported", &null, &null),
        line("b", "imported", &null, &a),
        line("a", "resumed", &null, &null),
        line("a", "deleted", &one, &null),
        line("b", "deleted", &null, &null),
    ];
    // The daemon's end suspends what is left.
    expected.push(line("a", "suspended", &null, &null));
    assert_eq!(said, expected);
    // An image is the same wherever it goes.
    let images: Vec<_> = told.iter().map(|line| line["image"].as_str().unwrap()).collect();
    let (checkpoint, slept) = (images[0], images[3]);
    let same = [checkpoint, checkpoint, checkpoint, slept, slept, slept, slept, checkpoint, slept];
    assert_eq!(images[..9], same);
    assert!(![checkpoint, slept].contains(&images[9]));
}
