use vivarium_api_types::{AuditEventsSpec, Preset};

use super::*;
use crate::engine::testing::settings;

fn allow(names: &[&str]) -> CodePolicySpec {
    let allow = Some(names.iter().map(|name| (*name).to_owned()).collect());
    let imports = Some(ImportsSpec { allow, deny: None });
    CodePolicySpec { imports, ..CodePolicySpec::default() }
}

fn deny(names: &[&str]) -> CodePolicySpec {
    let deny = Some(names.iter().map(|name| (*name).to_owned()).collect());
    let imports = Some(ImportsSpec { allow: None, deny });
    CodePolicySpec { imports, ..CodePolicySpec::default() }
}

fn imports(specs: &[CodePolicySpec]) -> Result<Option<ImportRule>, String> {
    let all = specs.iter().try_fold(Rules::default(), |rules, spec| rules.and(spec));
    all.map(|rules| rules.into_policy(AskedPolicy::default()).imports)
        .map_err(|refused| refused.reason)
}

#[test]
fn lists_of_imports_are_narrowed_and_never_widened() {
    let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (specs, expected) in [
        (vec![], None),
        (vec![allow(&["json", "os"]), allow(&["json", "socket"])], Some((true, vec!["json"]))),
        (vec![allow(&["os"]), allow(&["os.path", "osx"])], Some((true, vec!["os.path"]))),
        (vec![allow(&["os.path"]), allow(&["os"])], Some((true, vec!["os.path"]))),
        (vec![allow(&["os"]), allow(&["json"])], Some((true, vec![]))),
        (vec![deny(&["os"]), deny(&["json"])], Some((false, vec!["json", "os"]))),
        (vec![allow(&["json", "os"]), deny(&["os"])], Some((true, vec!["json"]))),
        (vec![deny(&["os"]), allow(&["os.path", "json"])], Some((true, vec!["json"]))),
    ] {
        let expected = expected.map(|(allows, names): (bool, Vec<&str>)| match allows {
            true => ImportRule::Allow(list(&names)),
            false => ImportRule::Deny(list(&names)),
        });
        assert_eq!(imports(&specs).unwrap(), expected, "{specs:?}");
    }
    let refused = imports(&[allow(&["os"]), deny(&["os.path"])]).unwrap_err();
    assert!(refused.contains("\"os.path\" is denied and is a part of \"os\""), "{refused}");
}

#[test]
fn work_and_events_are_tightened_and_forms_of_the_answer_are_chosen() {
    let limit = |max_work| CodePolicySpec { max_work: Some(max_work), ..CodePolicySpec::default() };
    let held = Rules::default().and(&limit(10)).unwrap();
    assert_eq!(held.clone().and(&limit(10)).unwrap().max_work, Some(10));
    assert_eq!(held.clone().and(&CodePolicySpec::default()).unwrap(), held);
    let refused = held.and(&limit(11)).unwrap_err();
    assert_eq!(refused, Refused::new("max_work", "11 is more than the 10 that holds"));
    let events = |deny: &[&str]| CodePolicySpec {
        audit_events: Some(AuditEventsSpec {
            deny: deny.iter().map(|name| (*name).to_owned()).collect(),
        }),
        ..CodePolicySpec::default()
    };
    let both = Rules::default().and(&events(&["open"])).unwrap().and(&events(&["import"])).unwrap();
    assert!(both.events.as_ref().unwrap().iter().eq(["import", "open"]));
    assert_eq!(both.clone().and(&events(&[])).unwrap().events, both.events);
    let shown =
        |echo| CodePolicySpec { echo: Some(echo), prints: Some(true), ..CodePolicySpec::default() };
    let last = Rules::default().and(&shown(Echo::None)).unwrap().and(&shown(Echo::All)).unwrap();
    assert_eq!((last.echo, last.prints), (Echo::All, true));
}

#[test]
fn a_preset_fills_in_what_is_not_said_beside_it() {
    let preset = |policy| CodePolicySpec { policy: Some(policy), ..CodePolicySpec::default() };
    let compute = Rules::default().and(&preset(Preset::Compute)).unwrap();
    assert!(compute.allow.as_ref().unwrap().contains("math"));
    assert!(compute.events.as_ref().unwrap().contains("socket.connect"));
    let same = compute.clone().and(&preset(Preset::Full)).unwrap();
    assert_eq!(same, compute, "full takes nothing away");
    let own = CodePolicySpec { policy: Some(Preset::Compute), ..allow(&["numpy"]) };
    let own = Rules::default().and(&own).unwrap();
    assert!(own.allow.unwrap().iter().eq(["numpy"]) && own.events == compute.events);
}

#[test]
fn an_environment_has_the_least_of_its_own_and_of_all() {
    let mut settings = settings();
    let environment = settings.environments.entry("default".to_owned()).or_default();
    environment.code_policy = CodePolicySpec { max_work: Some(20), ..deny(&["os.path"]) };
    settings.sandbox.code_policy.max_work = Some(10);
    assert_eq!(configured(&settings, "default").unwrap().max_work, Some(10));
    settings.sandbox.code_policy.max_work = Some(30);
    assert_eq!(configured(&settings, "default").unwrap().max_work, Some(20));
    assert_eq!(configured(&settings, "other").unwrap().max_work, Some(30));
    assert_eq!(contradictions(&settings).count(), 0);
    settings.sandbox.code_policy = allow(&["os"]);
    let (environment, field, why) = contradictions(&settings).next().unwrap();
    assert_eq!((environment.as_str(), field.as_str()), ("default", "imports"));
    assert!(why.contains("os.path"), "{why}");
}

#[test]
fn python_before_3_12_counts_no_work() {
    let limited = Rules { max_work: Some(1), ..Rules::default() };
    for old in ["3.11.9", "3.9", "2.7.18", "?"] {
        let refused = limited.check_python("default", old).unwrap_err();
        let reason =
            format!("it needs Python 3.12 or later; environment \"default\" has Python {old}");
        assert_eq!(refused, Refused::new("max_work", reason));
        assert!(Rules::default().check_python("default", old).is_ok());
    }
    for new in ["3.12.0", "3.13.0rc1", "3.14.0", "4.0"] {
        assert!(limited.check_python("default", new).is_ok(), "{new}");
    }
}

#[test]
fn every_list_is_counted_before_and_after_it_is_put_together() {
    let name = "x".repeat(200);
    let list = |prefix: &str| {
        let names: Vec<_> = (100..356).map(|n| format!("{prefix}{n}{name}")).collect();
        serde_json::to_string(&names).unwrap()
    };
    let (a, b) = (list("a"), list("b"));
    let each = 256 * (204 + NAME_BYTES);
    for (json, lists) in [
        (format!(r#""imports": {{"allow": {a}}}"#), 1),
        (format!(r#""imports": {{"deny": {a}}}"#), 1),
        (format!(r#""audit_events": {{"deny": {a}}}"#), 1),
        (format!(r#""names": {{"keep": {a}}}"#), 1),
        (format!(r#""names": {{"drop": {a}}}"#), 1),
        (format!(r#""imports": {{"deny": {a}}}, "audit_events": {{"deny": {b}}}"#), 2),
    ] {
        let asked = asked(&json).unwrap();
        assert_eq!(asked.bytes(), lists * each, "{}", &json[..30]);
        let rules = Rules::default().and(&asked.spec).unwrap();
        assert_eq!(bytes(&rules.into_policy(asked)), lists * each, "{}", &json[..30]);
    }
    let module = asked(r#""modules": {"host": {"b": 1}}"#).unwrap();
    let policy = Rules::default().into_policy(module);
    assert_eq!(bytes(&policy), "host".len() + r#"{"b": 1}"#.len() + 2 * NAME_BYTES);
    // Of the session, where the request says nothing.
    let held = Rules::default().and(&allow(&["json"])).unwrap();
    assert_eq!(bytes(&held.into_policy(AskedPolicy::default())), "json".len() + NAME_BYTES);
}

fn field(asked: Result<AskedPolicy, Refused>) -> String {
    asked.unwrap_err().field
}

fn asked(json: &str) -> Result<AskedPolicy, Refused> {
    let mut request: ExecuteRequest =
        serde_json::from_str(&format!(r#"{{"code": "", {json}}}"#)).unwrap();
    AskedPolicy::of(&mut request)
}

#[test]
fn what_is_no_policy_is_refused_by_its_field() {
    for (json, expected) in [
        (r#""max_work": 0"#, "max_work"),
        (r#""imports": {}"#, "imports"),
        (r#""imports": {"allow": [], "deny": []}"#, "imports"),
        (r#""audit_events": {"deny": ["*"]}"#, "audit_events"),
        (r#""names": {"keep": ["a"], "drop": ["b"]}"#, "names"),
        (r#""names": {"keep": ["a.b"]}"#, "names"),
        (r#""modules": {"a.b": {}}"#, "modules.a.b"),
        (r#""modules": {"sys": {}}"#, "modules.sys"),
        (r#""modules": {"host": [1]}"#, "modules.host"),
        (r#""modules": {"host": null}"#, "modules.host"),
    ] {
        assert_eq!(field(asked(json)), expected, "{json}");
    }
    let deep = format!(r#""modules": {{"host": {{"a": {}{}}}}}"#, "[".repeat(64), "]".repeat(64));
    assert_eq!(field(asked(&deep)), "modules.host");
    let large = format!(r#""modules": {{"host": {{"a": "{}"}}}}"#, "x".repeat(MAX_MODULES_BYTES));
    assert_eq!(field(asked(&large)), "modules");
    let good = asked(r#""modules": {"host": {"b": 1, "a": [2]}}, "names": {"keep": []}"#).unwrap();
    let policy = Rules::default().into_policy(good);
    let content = r#"{"b": 1, "a": [2]}"#.to_owned();
    assert_eq!(policy.modules, [HostModule { name: "host".to_owned(), content }]);
    assert_eq!(policy.names, Some(NameRule::Keep(vec![])));
}
