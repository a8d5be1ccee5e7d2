//! Previews of several tenants: each opens its own session's port, and nobody else's.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};
use vivarium_tests::http::{Client, Response};
use vivarium_tests::tenants::{RELOADED, Token, entry, reload, two};
use vivarium_tests::{Daemon, Setup};

use crate::preview::Preview;
use crate::{RAW_SERVER, answer, literal};

/// Both tenants call their session so.
const SESSION: &str = "same";

struct Tenants {
    daemon: Daemon,
    ann: Token,
    bob: Token,
}

impl Tenants {
    fn start() -> Self {
        let (ann, bob) = (Token::new(), Token::new());
        let tenants = two(&entry("ann", &ann, ""), &entry("bob", &bob, ""));
        let setup = Setup::default().config("preview", "url = \"https://preview.test\"");
        let tenants = Self { daemon: setup.config("[tenant]", &tenants).start(), ann, bob };
        for (token, text) in [(&tenants.ann, "of ann"), (&tenants.bob, "of bob")] {
            let spec = json!({"id": SESSION, "network": "loopback"});
            let _made = tenants.ask(token, "POST", "/v1/sessions", Some(&spec)).expect_success();
            tenants.serve(token, text);
        }
        tenants
    }

    fn ask(&self, token: &Token, method: &str, path: &str, body: Option<&Value>) -> Response {
        token.ask(&self.daemon.tcp(), method, path, body)
    }

    fn serve(&self, token: &Token, text: &str) {
        let code = format!("{RAW_SERVER}\nserve(8000, {})", literal(&answer(text)));
        let done = token.execute(&self.daemon.tcp(), SESSION, &code);
        assert_eq!(done["status"], "ok", "{done}");
    }

    #[track_caller]
    fn preview(&self, token: &Token) -> Preview {
        let path = format!("/v1/sessions/{SESSION}/previews");
        let made = self.ask(token, "POST", &path, Some(&json!({"port": 8000}))).expect_success();
        Preview::at(made["url"].as_str().unwrap())
    }

    #[track_caller]
    fn shows(&self, preview: &Preview, text: &str) {
        let found = preview.ask_with_cookie(&self.daemon, "/", &[]);
        assert_eq!(String::from_utf8_lossy(&found.body), text);
    }

    #[track_caller]
    fn is_closed(&self, preview: &Preview) {
        let opening = format!("/?vivarium-preview={}", preview.token);
        for found in [
            preview.ask_with_cookie(&self.daemon, "/", &[]),
            preview.ask(&self.daemon, &opening, &[]),
        ] {
            found.expect_problem(403, "preview_closed");
            assert_eq!(found.header("set-cookie"), None);
        }
    }
}

#[test]
fn preview_shows_its_own_tenants_session() {
    let tenants = Tenants::start();
    let (ann, bob) = (tenants.preview(&tenants.ann), tenants.preview(&tenants.bob));
    assert_ne!(ann.host, bob.host, "sessions of one id have origins of their own");
    tenants.shows(&ann, "of ann");
    tenants.shows(&bob, "of bob");
    for (host, token) in [(&ann, &bob), (&bob, &ann)] {
        tenants.is_closed(&Preview { host: host.host.clone(), token: token.token.clone() });
    }
    // Tokens of the API open no preview, and reach no server.
    let bearer = format!("Bearer {}", tenants.bob.text);
    let headers = [("Authorization", bearer.as_str())];
    ann.ask(&tenants.daemon, "/", &headers).expect_problem(403, "preview_closed");
    assert_eq!(ann.ask_with_cookie(&tenants.daemon, "/", &headers).body, b"of ann");
    let seen = tenants.ann.execute(
        &tenants.daemon.tcp(),
        SESSION,
        "any(b'authorization' in head.lower() or b'vivarium-preview' in head.lower() for head in heads)",
    );
    assert_eq!(seen["result"]["repr"], "False", "{seen}");
    // Nor does a preview's token open the API.
    let presented = [("Authorization", format!("Bearer {}", ann.token))];
    let presented = presented.each_ref().map(|(name, value)| (*name, value.as_str()));
    let at = tenants.daemon.tcp();
    let path = format!("/v1/sessions/{SESSION}");
    let refused = Client::connect(&at).send("GET", &path, &presented, None);
    refused.expect_problem(401, "unauthenticated");
    tenants.daemon.stop_and_check();
}

#[test]
fn signature_covers_whose_preview_it_is() {
    let tenants = Tenants::start();
    let (ann, bob) = (tenants.preview(&tenants.ann), tenants.preview(&tenants.bob));
    let (text, hash) = bob.token.split_once('.').unwrap();
    let text = String::from_utf8(BASE64.decode(text).unwrap()).unwrap();
    assert!(text.contains("bob"), "{text}");
    let forged = BASE64.encode(text.replace("bob", "ann"));
    let later = BASE64.encode(text.replace("expires_at\":\"2", "expires_at\":\"3"));
    let own = ann.token.split_once('.').unwrap();
    for (host, token) in [
        (&ann, format!("{forged}.{hash}")),
        (&ann, format!("{}.{hash}", own.0)),
        (&bob, format!("{later}.{hash}")),
        (&bob, format!("{}.", bob.token.split_once('.').unwrap().0)),
        (&bob, format!("{}x", bob.token)),
    ] {
        tenants.is_closed(&Preview { host: host.host.clone(), token });
    }
    // Another daemon, with the same tenants and sessions, has a key of its own.
    let other = Tenants::start();
    other.is_closed(&bob);
    let host = other.preview(&other.bob).host;
    other.is_closed(&Preview { host, token: bob.token.clone() });
    other.daemon.stop_and_check();
    tenants.shows(&bob, "of bob");
    tenants.daemon.stop_and_check();
}

#[test]
fn reset_and_deletion_of_one_tenants_session_leave_the_others() {
    let tenants = Tenants::start();
    let (ann, bob) = (tenants.preview(&tenants.ann), tenants.preview(&tenants.bob));
    let path = format!("/v1/sessions/{SESSION}");
    let reset = tenants.ask(&tenants.ann, "POST", &format!("{path}/reset"), None);
    let _reset = reset.expect_success();
    // The session is the same, and its server is gone.
    ann.ask_with_cookie(&tenants.daemon, "/", &[]).expect_problem(502, "port_closed");
    tenants.shows(&bob, "of bob");
    tenants.serve(&tenants.ann, "again of ann");
    tenants.shows(&ann, "again of ann");

    assert_eq!(tenants.ask(&tenants.ann, "DELETE", &path, None).status, 204);
    ann.ask_with_cookie(&tenants.daemon, "/", &[]).expect_problem(404, "unknown_session");
    let previews = format!("{path}/previews");
    let asked = tenants.ask(&tenants.ann, "POST", &previews, Some(&json!({"port": 8000})));
    asked.expect_problem(404, "unknown_session");
    tenants.shows(&bob, "of bob");
    tenants.daemon.stop_and_check();
}

/// Its sessions go on, and nobody reaches them.
#[test]
fn previews_of_a_removed_tenant_are_closed() {
    let tenants = Tenants::start();
    let (ann, bob) = (tenants.preview(&tenants.ann), tenants.preview(&tenants.bob));
    let file = std::fs::read_to_string(tenants.daemon.dir().join("vivarium.toml")).unwrap();
    let removed = entry("ann", &tenants.ann, "");
    let text = file.replace(&format!("[[tenant]]\n{removed}"), "");
    assert_ne!(text, file);
    reload(&tenants.daemon, &text, RELOADED);
    let path = format!("/v1/sessions/{SESSION}/previews");
    let asked = tenants.ask(&tenants.ann, "POST", &path, Some(&json!({"port": 8000})));
    asked.expect_problem(401, "unauthenticated");
    tenants.is_closed(&ann);
    tenants.shows(&bob, "of bob");
    tenants.daemon.stop_and_check();
}
