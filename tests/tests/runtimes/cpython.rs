//! CPython's own tests in the runtime: the modules that `tests/cpython/modules` names, each in a session of its
//! own. What of them does not pass is what `tests/cpython/differences` lists, neither more nor less.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Mutex;

use vivarium_tests::http::Client;

use super::inside;
use super::*;

/// Set where the modules that are run by hand are wanted too: tests/cpython/run.
const ALL: &str = "VIVARIUM_TEST_CPYTHON_ALL";
const RUNNER: &str = include_str!("../../cpython/inside.py");
/// Before the client gives up.
const TIMEOUT_MS: u64 = 100_000;

/// How a test does otherwise than in an interpreter of its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It fails.
    Fails,
    /// The kernel ends with it.
    Ends,
    /// It passes, but takes too long for the gate.
    Slow,
}

/// Of one module: test -> how.
#[derive(Debug, Default)]
struct Differences(BTreeMap<String, Kind>);

impl Differences {
    /// Each stands below a line with the reason.
    fn of(text: &str, module: &str) -> Self {
        let mut all = Self::default();
        let mut has_reason = false;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(reason) = line.strip_prefix("because ") {
                has_reason = !reason.is_empty();
                continue;
            }
            assert!(has_reason, "{line}: below no reason");
            let mut words = line.splitn(3, ' ');
            let [kind, of, test] = [(); 3].map(|()| words.next().unwrap());
            let kind = match kind {
                "fails" => Kind::Fails,
                "ends" => Kind::Ends,
                "slow" => Kind::Slow,
                _ => panic!("{line}: no such kind"),
            };
            if of == module {
                assert!(all.0.insert(test.to_owned(), kind).is_none(), "{line}: twice");
            }
        }
        all
    }

    fn all(&self, kinds: &[Kind]) -> BTreeSet<&str> {
        let own = self.0.iter().filter(|(_, kind)| kinds.contains(kind));
        own.map(|(test, _)| test.as_str()).collect()
    }
}

/// What the tests of a module came to.
#[derive(Debug, Default)]
struct Report {
    passed: usize,
    /// Test -> the last line of why.
    failed: BTreeMap<String, String>,
    /// What was running at the end.
    unfinished: Option<String>,
}

impl Report {
    /// Of what `inside.py` writes.
    fn of(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            let (kind, rest) = line.split_once(' ').unwrap();
            let (test, why) = rest.split_once('\t').unwrap();
            match kind {
                "began" => report.unfinished = Some(test.to_owned()),
                "ended" => report.unfinished = None,
                "passed" => report.passed += 1,
                "failed" => drop(report.failed.insert(test.to_owned(), why.to_owned())),
                _ => panic!("{line}"),
            }
        }
        report
    }

    /// What is not as it is listed, as it would have to be.
    fn against(&self, listed: &Differences, module: &str) -> Vec<String> {
        let fails = listed.all(&[Kind::Fails]);
        let mut wrong = Vec::new();
        if let Some(test) = &self.unfinished {
            wrong.push(format!("ends {module} {test}"));
        }
        if self.passed == 0 {
            wrong.push(format!("{module}: nothing has passed"));
        }
        let new = self.failed.iter().filter(|(test, _)| !fails.contains(test.as_str()));
        wrong.extend(new.map(|(test, why)| format!("fails {module} {test}    {why}")));
        let gone = fails.iter().filter(|test| !self.failed.contains_key(**test));
        wrong.extend(gone.map(|test| format!("{module} {test} does not fail any more")));
        wrong
    }
}

fn source(name: &str) -> String {
    fs::read_to_string(program::workspace().join("tests/cpython").join(name)).unwrap()
}

/// The modules of these kinds.
fn modules(kinds: &[&str]) -> Vec<String> {
    let text = source("modules");
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let wanted = lines.filter(|(kind, _)| kinds.contains(kind));
    wanted.flat_map(|(_, names)| names.split(' ').map(str::to_owned)).collect()
}

/// A call of what `inside.py` defines.
fn call(module: &str, only: &[&str], left_out: &BTreeSet<&str>) -> String {
    let [module, only, left_out] = [json!(module), json!(only), json!(left_out)];
    format!("{RUNNER}\nrun({module}, {only}, {left_out})")
}

/// Runs them in a session, and says what of the session is to be known if it has none.
fn in_session(daemon: &Daemon, archive: &[u8], code: &str) -> Result<Report, String> {
    let session = light(daemon);
    let path = session.path("/files/tests?unpack=true");
    let kind = [("Content-Type", "application/x-tar")];
    let sent = Client::connect(&daemon.unix()).send("PUT", &path, &kind, Some(archive));
    assert_eq!(sent.status, 200, "{}", String::from_utf8_lossy(&sent.body));
    let outcome = session.execute_with(&json!({"code": code, "timeout_ms": TIMEOUT_MS}));
    let report = session.request("GET", "/files/report", None);
    assert_eq!(session.request("DELETE", "", None).status, 204);
    let report = Report::of(&String::from_utf8_lossy(&report.body));
    if outcome.status() == "ok" || report.unfinished.is_some() {
        Ok(report)
    } else {
        Err(outcome.to_string())
    }
}

#[test]
fn cpythons_own_tests_pass_but_for_those_that_are_listed() {
    let Some(built) = inside::built() else { return };
    if !host::has(&[Requirement::CpythonTests]) {
        return;
    }
    let by_hand = std::env::var_os(ALL).is_some();
    let archive = fs::read(host::cpython_tests()).unwrap();
    let text = source("differences");
    let daemon = inside::daemon(built);
    let waiting = Mutex::new(modules(if by_hand { &["gate", "more"] } else { &["gate"] }));
    let wrong = Mutex::new(Vec::new());
    let passed = Mutex::new(0);
    let check = |module: &str| {
        let listed = Differences::of(&text, module);
        let kinds: &[Kind] = if by_hand { &[Kind::Ends] } else { &[Kind::Ends, Kind::Slow] };
        let mut found = match in_session(&daemon, &archive, &call(module, &[], &listed.all(kinds)))
        {
            Ok(report) => {
                *passed.lock().unwrap() += report.passed;
                report.against(&listed, module)
            }
            Err(why) => vec![format!("{module}: {why}")],
        };
        for test in listed.all(&[Kind::Ends]).into_iter().filter(|_| by_hand) {
            let alone = in_session(&daemon, &archive, &call(module, &[test], &BTreeSet::new()));
            if alone.is_ok_and(|report| report.unfinished.as_deref() != Some(test)) {
                found.push(format!("{module} {test} does not end the kernel any more"));
            }
        }
        wrong.lock().unwrap().extend(found);
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let next = || waiting.lock().unwrap().pop();
                while let Some(module) = next() {
                    check(&module);
                }
            });
        }
    });
    let (wrong, passed) = (wrong.into_inner().unwrap(), passed.into_inner().unwrap());
    assert!(wrong.is_empty(), "not as tests/cpython/differences has it:\n{}", wrong.join("\n"));
    assert!(passed >= 9000, "{passed}: fewer than there were by far");
    daemon.stop_and_check();
}

#[test]
fn a_list_of_differences_is_exact() {
    let listed = "# A comment.\nbecause of a reason\nfails m T.a\nends m T.b\nfails other T.c\n";
    let against = |report: &str| Report::of(report).against(&Differences::of(listed, "m"), "m");
    let right =
        "began T.a\t\nfailed T.a\twhy\nended T.a\t\nbegan T.d\t\npassed T.d\t\nended T.d\t\n";
    assert_eq!(against(right), [""; 0]);
    let none_passed = "began T.a\t\nfailed T.a\twhy\nended T.a\t\n";
    assert_eq!(against(none_passed), ["m: nothing has passed"]);
    let another = format!("{right}began T.c\t\nfailed T.c\tthis is\twhy\nended T.c\t\n");
    assert_eq!(against(&another), ["fails m T.c    this is\twhy"]);
    assert_eq!(
        against("began T.d\t\npassed T.d\t\nended T.d\t\n"),
        ["m T.a does not fail any more"]
    );
    assert_eq!(against(&format!("{right}began T.e\t\n")), ["ends m T.e"]);
    let without_reason = std::panic::catch_unwind(|| Differences::of("fails m T.a", "m"));
    assert!(without_reason.is_err());
}
