//! For tests of layers that can not be undone: a session's context, and a process to spoil.

use std::path::{Path, PathBuf};
use std::process::Command;

use vivarium_protocol::layer::{Intent, Layer, Plan};
use vivarium_protocol::policy::{CgroupPlacement, CpuCores, Interpreter, Limits, Network, Policy};
use vivarium_protocol::runtime::WasmEngine;
use vivarium_protocol::units::Limit;

use super::super::{Context, HostFacts};

/// Set in the child that [`in_child`] makes.
const CHILD: &str = "VIVARIUM_TEST_CHILD";

/// A session of `layers` and no others, on the host's own files.
pub(crate) fn context(layers: &[Layer], network: Network, workdir: &Path) -> Context {
    let mut plan = Plan::off();
    for layer in layers {
        plan.set(*layer, &Intent::Apply);
    }
    let at = |value| Limit::new(value).unwrap();
    let limits = Limits {
        max_memory_mb: at(2048),
        max_cpu_secs: at(300),
        max_procs: at(64),
        max_open_fds: at(256),
        max_file_size_mb: at(256),
        max_disk_mb: at(512),
        max_inodes: at(65536),
        cpu_cores: CpuCores::ONE,
        max_output_bytes: at(1024),
        max_result_bytes: at(1024),
    };
    let interpreter = Interpreter {
        path: PathBuf::from("/usr/bin/python3"),
        prefixes: Vec::new(),
        isolate: Vec::new(),
        program: std::sync::Arc::default(),
        version: String::new(),
        wasm: None,
    };
    let policy = Policy {
        plan,
        limits,
        network,
        interpreter,
        ca_certificate: None,
        env: Vec::new(),
        read_paths: Vec::new(),
        workdir: PathBuf::from("/workspace"),
        host_workdir: Some(workdir.to_owned()),
        cgroup: None,
        ids: None,
        passt: None,
        stores: Vec::new(),
        hidden_paths: Vec::new(),
    };
    let host = HostFacts {
        uid: nix::unistd::getuid().as_raw(),
        gid: nix::unistd::getgid().as_raw(),
        ..HostFacts::default()
    };
    Context::new(policy, host)
}

/// What an interpreter has that is an engine.
pub(crate) fn engine() -> WasmEngine {
    WasmEngine {
        name: "wasmtime 48".into(),
        holds: "all".into(),
        missing: String::new(),
        runner: None,
    }
}

/// A cgroup's leaf of the agent, and the cgroup of all other leaves, with every limit.
pub(crate) fn placement(agent: &str, kernel: &str) -> CgroupPlacement {
    CgroupPlacement {
        agent: agent.into(),
        kernel: kernel.into(),
        missing: String::new(),
        fix: String::new(),
        limits_memory: true,
        limits_pids: true,
    }
}

/// Runs `body` in a process of its own: this test, run again alone by the test program.
/// `test` is `module_path!()` and the function's name. The parent gives `body` nothing.
pub(crate) fn in_child(test: &str, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let (_, name) = test.split_once("::").unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || !text.contains("1 passed") {
        panic!("{name}: {}\n{text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
}
