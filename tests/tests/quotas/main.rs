//! Quotas and policies of tenants over HTTP: held exactly, given back, shown, and told to who is
//! over one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod attacks;
mod exact;
mod policy;
mod transfers;

use serde_json::Value;
use vivarium_tests::http::Response;
use vivarium_tests::tenants::{Token, entry, two};
use vivarium_tests::{Daemon, Setup};

/// A daemon with a tenant `one` of these quotas, and a tenant `other` without any.
fn daemon(quotas: &str) -> (Daemon, Token, Token) {
    let (one, other) = (Token::new(), Token::new());
    let tenants = two(&entry("one", &one, quotas), &entry("other", &other, ""));
    // A thousand clients are to be busy at once.
    let setup = Setup::default().config("server", "max_connections = 8000");
    let setup = setup.config("session", "queue_depth = 10000").config("[tenant]", &tenants);
    (setup.start(), one, other)
}

/// Whether a quota refused it, as it has to.
#[track_caller]
fn is_over(response: &Response, quota: &str) -> bool {
    if response.status < 300 {
        return false;
    }
    let problem: Value = response.expect_problem(429, "quota_exceeded");
    assert_eq!(problem["quota"], quota, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains(quota), "{problem}");
    let secs: u64 = response.header("retry-after").unwrap().parse().unwrap();
    assert!(secs >= 1, "{secs}");
    true
}
