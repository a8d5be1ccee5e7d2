//! Ids, groups, capabilities and privileges.

use std::collections::BTreeSet;

use vivarium_tests::host::{self, Requirement};
use vivarium_tests::probe::{self, Attempt};
use vivarium_tests::{Session, Setup, wait};

use crate::every_way::{control, daemon, setup};

const NO_CAPABILITIES: &str = "0000000000000000";

fn status(session: &Session<'_>, name: &str) -> String {
    let field = format!("status()['{name}'].strip()");
    Attempt::make(session, &field).value().as_str().unwrap().to_owned()
}

fn with_probe<T>(setup: Setup, ask: impl Fn(&Session<'_>) -> T) -> T {
    let daemon = setup.start();
    let session = daemon.session();
    probe::load(&session);
    ask(&session)
}

#[test]
fn no_set_holds_a_capability() {
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let read = |session: &Session<'_>| sets.map(|set| status(session, set));
    assert_eq!(with_probe(setup(), read), [NO_CAPABILITIES; 5]);
    let off = with_probe(setup().without(&["credentials"]), read);
    assert_ne!(off[3], NO_CAPABILITIES, "the bounding set is the host's");
}

/// Read from outside. Each is of the session's user namespace, and of no other.
#[test]
fn agent_and_launcher_hold_no_capability_that_they_do_not_need() {
    // capabilities(7), by number: CHOWN, DAC_OVERRIDE, FOWNER, KILL, SYS_PTRACE.
    const SERVES_WITH: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 5 | 1 << 19;
    for (disabled, held) in [(&[][..], true), (&["credentials"][..], false)] {
        let daemon = setup().without(disabled).start();
        let session = daemon.session();
        assert_eq!(session.value("6 * 7"), "42");
        daemon.until_only(1);
        // One of the pool may be just starting.
        wait::until_true("agents and launchers with what they need, or with all", || {
            daemon.descendants().iter().all(|one| {
                let [permitted, effective, bounding] =
                    ["CapPrm", "CapEff", "CapBnd"].map(|set| one.capabilities(set));
                match one.name.as_str() {
                    "viv-agent" => {
                        ([permitted, effective, bounding] == [Some(SERVES_WITH); 3]) == held
                    }
                    "viv-launcher" => [permitted, effective] == [Some(0); 2],
                    _ => true,
                }
            })
        });
        daemon.stop_and_check();
    }
}

#[test]
fn no_new_privileges_can_be_had() {
    let read = |session: &Session<'_>| status(session, "NoNewPrivs");
    assert_eq!(with_probe(setup(), read), "1");
    // Landlock and seccomp set it too, as they can not do without.
    let layers = ["credentials", "landlock", "seccomp"];
    assert_eq!(with_probe(setup().without(&layers), read), control("0", "1"));
}

#[test]
fn nobody_can_become_somebody_else() {
    let daemon = daemon();
    let session = daemon.session();
    // EINVAL where only the session's own id is mapped, EPERM where the agent's is as well.
    let partial = session.layer("credentials")["status"] == "partial";
    let refused = if partial { "EINVAL" } else { "EPERM" };
    probe::check(
        &session,
        &[
            ("os.setuid(0)", refused),
            ("os.setgid(0)", refused),
            ("os.setresuid(0, 0, 0)", refused),
            ("os.setuid(65534)", "EINVAL"),
            ("os.setgroups([])", "EPERM"),
            ("os.setuid(1000)", "works"),
            ("os.chown('/workspace', 0, 0)", "EINVAL|EPERM"),
        ],
    );
    assert_eq!(status(&session, "Uid"), "1000\t1000\t1000\t1000");
    assert_eq!(status(&session, "Gid"), "1000\t1000\t1000\t1000");
}

#[test]
fn sessions_have_host_ids_of_their_own_where_they_are_granted() {
    if !host::has(&[Requirement::SubordinateIds]) {
        return;
    }
    let daemon = daemon();
    let (one, other) = (daemon.session(), daemon.session());
    for session in [&one, &other] {
        assert_eq!(session.layer("credentials")["status"], "enforced", "{}", session.info());
    }
    // Agent and kernel of each session: four ids, and those of a session that waits in a pool,
    // none of them the daemon's or root.
    daemon.until_only(2);
    let daemons = daemon.process().user_ids()[0];
    let ids = || -> BTreeSet<u32> {
        let ids = daemon.descendants().into_iter().map(|process| process.user_ids()[0]);
        ids.filter(|id| *id != daemons).collect()
    };
    // The last process to come may still be on its way into its session, under the daemon's id.
    let expected = 4 + 2 * daemon.start_mode.waiting();
    wait::until_true("two ids for each session", || ids().len() == expected);
    let ids = ids();
    assert!(!ids.contains(&0));
    // An id is given back with its session, and the next session does not see anything of it.
    assert_eq!(one.request("DELETE", "", None).status, 204);
    assert_eq!(daemon.session().value("1 + 1"), "2");
    daemon.stop_and_check();
}

#[test]
fn no_process_is_root() {
    let daemon = daemon();
    let session = daemon.session();
    assert_eq!(session.value("1 + 1"), "2");
    daemon.until_only(1);
    let mut all = daemon.descendants();
    all.push(daemon.process());
    for process in all {
        assert!(!process.user_ids().contains(&0), "{process:?}");
    }
}
