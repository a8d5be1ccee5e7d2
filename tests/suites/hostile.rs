//! Hostile code: whatever it does to its kernel, the answer is clear, the session is usable
//! afterwards, nothing of it is left running, and daemon and neighbours do not notice.

mod channel;
mod deaths;
mod floods;
mod processes;
mod stubborn;
mod tampering;

use serde_json::json;
use vivarium_tests::{Daemon, Outcome, Session};

use crate::every_way::setup;

/// Much more than a daemon with two sessions needs, and much less than what hostile code tries
/// to make it hold, in KiB.
const DAEMON_PEAK_KIB: u64 = 300 << 10;

/// Hostile code, and what is right to come of it.
struct Case<'a> {
    code: &'a str,
    limits: serde_json::Value,
    timeout_ms: u64,
    wanted: [&'a str; 3],
    detail: &'a str,
}

impl<'a> Case<'a> {
    fn new(code: &'a str) -> Self {
        // Long enough to be no part of what is tested.
        let timeout_ms = 60_000;
        Self { code, limits: json!({}), timeout_ms, wanted: ["ok", "", "preserved"], detail: "" }
    }

    /// It ends its kernel, which is killed for it or dies of it.
    fn killed(self, cause: &'a str, detail: &'a str) -> Self {
        Self { wanted: ["killed", cause, "lost"], detail, ..self }
    }

    /// It raises an exception that nobody catches.
    fn raises(self) -> Self {
        Self { wanted: ["error", "", "preserved"], ..self }
    }

    /// It raises an exception for a limit that it has reached.
    fn raises_at(self, limit: &'a str) -> Self {
        Self { wanted: ["error", limit, "preserved"], ..self }
    }

    /// It does not end by itself, and gives way (`preserved`) or does not (`lost`).
    fn times_out(self, timeout_ms: u64, state: &'a str) -> Self {
        Self { wanted: ["timed_out", "wall_time", state], timeout_ms, ..self }
    }

    fn limits(self, limits: serde_json::Value) -> Self {
        Self { limits, ..self }
    }

    /// Runs it beside an innocent session and checks everything.
    #[track_caller]
    fn run(self) -> Outcome {
        self.run_and(|_, _| {})
    }

    /// The same, with a look at the session before it is used again.
    #[track_caller]
    fn run_and(self, look: impl FnOnce(&Session<'_>, &Outcome)) -> Outcome {
        // Limits are those of all sessions, so that a pool has sessions with them.
        // What is to give way may take its time on a busy machine; what is not is waited for.
        let grace = if self.wanted.contains(&"lost") { "300ms" } else { "1m" };
        let setup = setup().config("session", &format!("interrupt_grace = \"{grace}\""));
        let daemon = setup.limits(&self.limits).start();
        let before = daemon.process();
        let neighbour = daemon.session();
        let _innocent = neighbour.execute("x = 41").ok();
        let session = daemon.session();
        let outcome = session.execute_for(self.timeout_ms, self.code);
        let ended = [outcome.status(), outcome.cause(), outcome.state()];
        assert_eq!(ended, self.wanted, "{outcome}");
        assert!(outcome.detail().contains(self.detail), "{outcome}");
        look(&session, &outcome);
        // Each of the next gets its own answer.
        for (code, right) in [("1 + 1", "2"), ("'a' + 'b'", "'ab'"), ("7 * 6", "42")] {
            let next = session.execute(code);
            let numbers =
                [&outcome, &next].map(|one| one.text("execution_id").parse::<u64>().unwrap());
            assert!(numbers[0] < numbers[1], "{next}");
            assert_eq!((next.status(), next.result()), ("ok", right), "{next}");
        }
        assert_eq!(neighbour.value("x + 1"), "42");
        let now = daemon.process();
        assert_eq!((now.pid, now.started), (before.pid, before.started), "another daemon");
        let peak = now.status_number("VmHWM").unwrap();
        assert!(peak < DAEMON_PEAK_KIB, "the daemon needed {peak} KiB");
        if outcome.state() == "lost" {
            nothing_is_left(&daemon, &session);
        }
        assert_eq!(session.request("DELETE", "", None).status, 204);
        daemon.until_only(1);
        daemon.stop_and_check();
        outcome
    }
}

/// Of two sessions there are two launchers, two agents and two kernels, and nothing else. The new
/// kernel came about as the first one did.
#[track_caller]
fn nothing_is_left(daemon: &Daemon, session: &Session<'_>) {
    assert_eq!(session.processes(), 1);
    daemon.until_only(2);
    daemon.check_start_mode();
}
