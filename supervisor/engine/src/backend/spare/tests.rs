use std::path::PathBuf;

use vivarium_protocol::layer::Intent;
use vivarium_protocol::policy::{CgroupPlacement, StoreMount, SubordinateIds};
use vivarium_protocol::units::Limit;

use super::*;
use crate::session::tests::policy;

type Change = fn(&mut Policy);

fn changed(change: Change) -> Policy {
    let mut policy = policy();
    change(&mut policy);
    policy
}

const OWN: [Change; 2] = [
    |policy| policy.env = vec![("OWN".to_owned(), "1".to_owned())],
    |policy| {
        policy.cgroup = Some(CgroupPlacement {
            agent: "/sys/fs/cgroup/one/agent".into(),
            kernel: "/sys/fs/cgroup/one".into(),
            missing: String::new(),
            fix: String::new(),
            limits_memory: true,
            limits_pids: true,
        });
    },
];

const UNPREPARED: [Change; 4] = [
    |policy| policy.plan.set(Layer::Namespaces, &Intent::Off),
    |policy| policy.plan.set(Layer::Mounts, &Intent::Off),
    |policy| policy.network = Network::Full,
    |policy| policy.stores = vec![home()],
];

fn home() -> StoreMount {
    StoreMount { source: "/srv/home".into(), target: "/home/user".into(), read_only: false }
}

#[test]
fn sessions_may_differ_in_variables_and_cgroups_alone() {
    for change in OWN {
        let policy = changed(change);
        assert!(policy.has_surroundings_of(&self::policy()), "{policy:?}");
        assert_eq!(without_own(&policy), self::policy());
    }
    let others: [Change; 6] = [
        |policy| policy.limits.max_procs = Limit::Unlimited,
        |policy| policy.network = Network::Loopback,
        |policy| policy.read_paths = vec![PathBuf::from("/srv/data")],
        |policy| policy.workdir = "/elsewhere".into(),
        |policy| policy.ids = Some(SubordinateIds { agent: 7, kernel: 8 }),
        |policy| policy.hidden_paths = vec![PathBuf::from("/usr/lib/hidden")],
    ];
    for change in others.into_iter().chain(UNPREPARED) {
        let policy = changed(change);
        assert!(!policy.has_surroundings_of(&self::policy()), "{policy:?}");
    }
}

#[test]
fn ids_are_the_next_sessions_own() {
    let policy = changed(|policy| policy.ids = Some(SubordinateIds { agent: 7, kernel: 8 }));
    assert_eq!(without_own(&policy), self::policy());
}

#[test]
fn a_session_that_can_not_be_prepared_for_is_not() {
    let spec = |policy| LaunchSpec { session_id: "one".to_owned(), policy, ids: None };
    assert!(can_be_prepared(&spec(policy())), "the control");
    for change in UNPREPARED {
        assert!(!can_be_prepared(&spec(changed(change))));
    }
}
