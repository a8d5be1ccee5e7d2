//! Many tenants at once.

use std::collections::BTreeSet;
use std::thread;

use serde_json::json;
use vivarium_tests::Setup;
use vivarium_tests::tenants::{Token, entry};

const TENANTS: usize = 50;
const SESSIONS_OF_EACH: usize = 10;

#[test]
fn five_hundred_sessions_of_fifty_tenants_keep_apart() {
    let tenants: Vec<(String, Token)> =
        (0..TENANTS).map(|number| (format!("tenant-{number}"), Token::new())).collect();
    let entries: Vec<String> = tenants.iter().map(|(name, token)| entry(name, token, "")).collect();
    let daemon = Setup::default()
        .config("[tenant]", &entries.join("[[tenant]]\n"))
        .config("session", "max_sessions = 500")
        .start();
    let at = daemon.unix();
    let ids: Vec<String> =
        (0..SESSIONS_OF_EACH).map(|number| format!("session-{number}")).collect();
    // All tenants have sessions of the same ids.
    let in_each = |act: &(dyn Fn(&str, &Token, &str) + Sync)| {
        thread::scope(|scope| {
            for part in tenants.chunks(TENANTS / 5) {
                let ids = &ids;
                scope.spawn(move || {
                    for id in ids {
                        part.iter().for_each(|(name, token)| act(name, token, id));
                    }
                });
            }
        });
    };
    in_each(&|name, token, id| {
        let spec = json!({"id": id, "limits": {"max_memory_mb": 64}});
        assert_eq!(token.ask(&at, "POST", "/v1/sessions", Some(&spec)).status, 201, "{name} {id}");
        token.execute(&at, id, &format!("x = '{name} {id}'; open('x', 'w').write(x)"));
    });
    in_each(&|name, token, id| {
        let seen = token.execute(&at, id, "x == open('x').read() and x");
        assert_eq!(seen["result"]["repr"], format!("'{name} {id}'"));
    });
    for (name, token) in &tenants {
        let listed = token.ask(&at, "GET", "/v1/sessions", None).expect_success();
        let listed = listed["sessions"].as_array().unwrap();
        assert!(listed.iter().all(|session| session["tenant"] == **name), "{listed:?}");
        let seen: BTreeSet<_> =
            listed.iter().filter_map(|session| session["id"].as_str()).collect();
        assert_eq!(seen.len(), SESSIONS_OF_EACH);
    }
    daemon.stop_and_check();
}
