//! Tenants who may build, and what they have of each other.

use serde_json::json;
use vivarium_tests::events::Events;
use vivarium_tests::host::{self, Requirement};
use vivarium_tests::tenants::{Token, entry, two};

use crate::{Packages, ended};

const ENVIRONMENTS: &str = "/v1/environments";

#[test]
fn two_tenants_have_one_name_and_nothing_of_each_other() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    let (a, b, c) = (Token::new(), Token::new(), Token::new());
    let may = "may_build = true\nmax_environments = 1";
    let tenants = two(&entry("a", &a, may), &entry("b", &b, "may_build = true"));
    let tenants = format!("{tenants}[[tenant]]\n{}", entry("c", &c, ""));
    let daemon = packages.setup("").config("[tenant]", &tenants).start();
    let at = daemon.unix();
    let order = |name: &str, version: &str| json!({"name": name, "requirements": format!("tiny=={version}")});
    let build_of = |token: &Token, name: &str| {
        let path = format!("{ENVIRONMENTS}/{name}/build");
        ended(|| token.ask(&at, "GET", &path, None))
    };
    for (token, version) in [(&a, "1.0"), (&b, "2.0")] {
        let begun = token.ask(&at, "POST", ENVIRONMENTS, Some(&order("mine", version)));
        assert_eq!(begun.status, 202);
        assert_eq!(build_of(token, "mine")["state"], "succeeded");
        let spec = json!({"id": "same", "environment": "mine"});
        assert_eq!(token.ask(&at, "POST", "/v1/sessions", Some(&spec)).status, 201);
        let outcome = token.execute(&at, "same", "__import__('tiny').VERSION");
        assert_eq!(outcome["result"]["repr"], format!("'{version}'"));
    }
    // The rest is nobody else's, and looks as if it were not there.
    assert_eq!(c.ask(&at, "GET", ENVIRONMENTS, None).expect_success(), json!({"environments": []}));
    for path in ["mine", "mine/build", "mine/build/log"] {
        let path = format!("{ENVIRONMENTS}/{path}");
        assert_eq!(a.ask(&at, "GET", &path, None).status, 200);
        c.ask(&at, "GET", &path, None).expect_problem(404, "unknown_environment");
    }
    c.ask(&at, "DELETE", &format!("{ENVIRONMENTS}/mine"), None)
        .expect_problem(404, "unknown_environment");
    let spec = json!({"environment": "mine"});
    c.ask(&at, "POST", "/v1/sessions", Some(&spec)).expect_problem(422, "invalid_field");
    c.ask(&at, "POST", ENVIRONMENTS, Some(&order("own", "1.0")))
        .expect_problem(403, "may_not_build");
    a.ask(&at, "POST", ENVIRONMENTS, Some(&order("second", "1.0")))
        .expect_problem(429, "too_many_environments");
    a.ask(&at, "GET", "/v1/admin/environments", None).expect_problem(403, "scope_required");

    // The operator's are everybody's, and the tenant's own come first.
    let admin = |name: &str, version: &str| {
        daemon.request("POST", crate::ADMIN, Some(&order(name, version)))
    };
    for name in ["mine", "shared"] {
        assert_eq!(admin(name, "2.0").status, 202);
        let path = format!("{}/{name}/build", crate::ADMIN);
        assert_eq!(ended(|| daemon.request("GET", &path, None))["state"], "succeeded");
    }
    for (token, environment, version) in
        [(&a, "mine", "1.0"), (&a, "shared", "2.0"), (&c, "mine", "2.0")]
    {
        let request = json!({"code": "__import__('tiny').VERSION", "environment": environment});
        let outcome = token.ask(&at, "POST", "/v1/run", Some(&request)).expect_success();
        assert_eq!(outcome["result"]["repr"], format!("'{version}'"), "{environment}");
    }
    // Each sees what its sessions can have, and nothing of another's.
    for (token, owns) in [(&a, true), (&c, false)] {
        let host = token.ask(&at, "GET", "/v1/host", None).expect_success();
        let environments = host["environments"].as_array().unwrap();
        let shown =
            environments.iter().map(|it| (it["name"].as_str().unwrap(), it["base"].as_str()));
        let base = Some("default");
        let expected = [("default", None), ("mine", base), ("shared", base)];
        assert_eq!(shown.collect::<Vec<_>>(), expected);
        assert_eq!(a.ask(&at, "GET", &format!("{ENVIRONMENTS}/mine"), None).status, 200);
        let own = token.ask(&at, "GET", ENVIRONMENTS, None).expect_success();
        assert_eq!(own["environments"].as_array().unwrap().len(), usize::from(owns));
    }
    let host = b.ask(&at, "GET", "/v1/host", None).expect_success().to_string();
    assert!(!host.contains("second") && host.contains("\"mine\""), "{host}");
    // What it builds is followed as executions are.
    let begun = b.ask(&at, "POST", ENVIRONMENTS, Some(&order("followed", "1.0")));
    assert_eq!(begun.status, 202);
    let headers = [("Authorization", &*format!("Bearer {}", b.text))];
    let path = format!("{ENVIRONMENTS}/followed/build");
    let events = Events::open(&at, "GET", &path, &headers, None).rest();
    assert!(vivarium_tests::events::text(&events, "stdout").contains("tiny==1.0"));
    assert_eq!(build_of(&b, "followed")["state"], "succeeded", "the stream ends with the build");
}

#[test]
fn quotas_of_disk_and_of_builds_hold() {
    if !host::has(&[Requirement::Uv]) {
        return;
    }
    let packages = Packages::new();
    packages.add("wait");
    packages.add("fill");
    let token = Token::new();
    let entry = entry("a", &token, "may_build = true\nmax_environments_mb = 1");
    let daemon = packages.setup("").config("[tenant]", &entry).start();
    let at = daemon.unix();
    let begin = |name: &str, requirements: &str| {
        let order = json!({"name": name, "requirements": requirements});
        token.ask(&at, "POST", ENVIRONMENTS, Some(&order))
    };
    assert_eq!(begin("large", "fill").status, 202);
    let path = format!("{ENVIRONMENTS}/large/build");
    let build = ended(|| token.ask(&at, "GET", &path, None));
    assert!(build["error"].as_str().unwrap().contains("more than 1048576 bytes"), "{build}");
    assert_eq!(begin("waits", "wait").status, 202);
    let problem = begin("second", "tiny").expect_problem(429, "too_many_builds");
    assert!(problem["detail"].as_str().unwrap().contains("tenant.max_builds"), "{problem}");
    // Builds that run end with the daemon.
    daemon.stop_and_check();
}
