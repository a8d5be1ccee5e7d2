//! What no single layer is for: descriptors, the agent, and the report of it all.

use vivarium_protocol::layer::Layer;
use vivarium_tests::host;
use vivarium_tests::probe::{self, Attempt};
use vivarium_tests::program;

use crate::every_way::{daemon, setup};

#[test]
fn a_kernel_has_its_four_descriptors_and_no_other() {
    let daemon = daemon();
    let session = daemon.session();
    probe::load(&session);
    // The kernel's own, as its child sees them; the attempt's pipe is among them, with one end or still
    // with both.
    let look = "[os.readlink('/proc/%d/fd/%s' % (os.getppid(), n)) \
                for n in sorted(os.listdir('/proc/%d/fd' % os.getppid()), key=int)]";
    let found = Attempt::make(&session, look).value();
    let targets: Vec<_> =
        found.as_array().unwrap().iter().map(|target| target.as_str().unwrap()).collect();
    let (own, attempts) = targets.split_at(4);
    let kinds: Vec<_> = own.iter().map(|target| target.split(':').next().unwrap()).collect();
    assert_eq!(kinds, ["/dev/null", "pipe", "pipe", "socket"]);
    let is_attempts = |target: &&str| target.starts_with("pipe") && *target == attempts[0];
    assert!(!own.contains(&attempts[0]) && attempts.len() <= 2, "{found}");
    assert!(attempts.iter().all(is_attempts), "the attempt's own, and nothing else: {found}");
}

#[test]
fn the_agent_can_not_be_read_signalled_or_traced() {
    let daemon = daemon();
    let session = daemon.session();
    probe::check(
        &session,
        &[
            ("call('ptrace', 16, 1, 0, 0)", "EPERM"),
            ("call('pidfd_getfd', call('pidfd_open', 1, 0), 0, 0)", "EPERM"),
            ("os.listdir('/proc/1')", "EPERM|ENOENT"),
            (
                "raise_limit('RLIMIT_CPU', 1, 1) and call(302 if X86 else 261, 1, 0, zeroed(16), 0)",
                "EPERM",
            ),
        ],
    );
    assert_eq!(session.value("1 + 1"), "2");
}

#[test]
fn every_layer_is_reported_in_order_and_what_is_off_says_so() {
    let off = ["network", "seccomp"];
    let daemon = setup().without(&off).start();
    let info = daemon.session().info();
    let layers = info["protection"].as_array().unwrap();
    let names: Vec<_> = layers.iter().map(|layer| layer["layer"].as_str().unwrap()).collect();
    assert_eq!(names, Layer::ALL.map(Layer::name));
    for layer in layers {
        let is_off = off.contains(&layer["layer"].as_str().unwrap());
        assert_eq!(layer["status"] == "off", is_off, "{layer}");
        let needs_fix = layer["status"] != "enforced";
        assert_eq!(!layer["fix"].as_str().unwrap().is_empty(), needs_fix, "{layer}");
        assert!(!layer["detail"].as_str().unwrap().is_empty(), "{layer}");
    }
    let host = daemon.request("GET", "/v1/host", None).expect_success();
    assert_eq!(host["layers"], info["protection"]);
}

#[test]
fn on_this_host_everything_but_cgroup_and_credentials_is_enforced() {
    let daemon = daemon();
    for layer in Layer::ALL {
        let report = daemon.layer(layer.name());
        let may_be_partial = matches!(layer, Layer::Cgroup | Layer::Credentials);
        assert!(report["status"] == "enforced" || may_be_partial, "{report}");
    }
}

/// With subordinate ids for the daemon's user, and without.
#[test]
fn whether_kernels_have_the_daemons_id_is_what_is_reported() {
    let mut daemons = vec![(setup().start(), host::grants_ids())];
    if host::is_root() {
        daemons.push((setup().runner(program::nobody()).start(), false));
    }
    for (daemon, granted) in daemons {
        let session = daemon.session();
        let shares_id = session.kernel().user_ids() == daemon.process().user_ids();
        assert_eq!(shares_id, !granted);
        for report in [session.layer("credentials"), daemon.layer("credentials")] {
            let says = |key: &str, text: &str| report[key].as_str().unwrap().contains(text);
            if granted {
                assert_eq!(report["status"], "enforced", "{report}");
            } else {
                assert_eq!(report["status"], "partial", "{report}");
                assert!(says("detail", "the host id is the daemon's own"), "{report}");
                assert!(says("fix", "subordinate ids"), "{report}");
            }
        }
        daemon.stop_and_check();
    }
}
