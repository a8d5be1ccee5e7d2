//! The rlimits layer: per-process limits, the floor under the cgroup's limits of the session.
//!
//! They are inherited, so they hold for every process of the tenant, and each for itself: only
//! the cgroup and the size of the tmpfs limit a session as a whole. A limit is never raised
//! here: what is wanted is clamped to the inherited hard limit (setrlimit(2)).

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, rlim_t, setrlimit};
use vivarium_protocol::layer::{Layer, Report};
use vivarium_protocol::policy::Policy;
use vivarium_protocol::units::Limit;

use super::{Context, LayerCode, LayerError};
use crate::sys;

/// Seconds that the first execution may use beyond its own limit, for Python's start. From
/// then on the agent moves the soft limit, by prlimit(2), before each execution: RLIMIT_CPU
/// counts a process's whole life, and `max_cpu_secs` is for one execution.
const START_CPU_SECONDS: rlim_t = 5;

const MIB: rlim_t = 1024 * 1024;

/// Address space that the engine reserves around a linear memory of 32 bits and does not use: what the memory
/// itself may have, the engine limits.
const WASM_RESERVED_BYTES: rlim_t = 8 << 30;

/// The soft limit is the usual one, whatever the daemon's is. The hard one stays below
/// "unlimited", which would switch mmap to its legacy, less random layout
/// (`mmap_is_legacy` in the kernel's mm/util.c).
const STACK_SOFT_BYTES: rlim_t = 8 * MIB;
const STACK_HARD_BYTES: rlim_t = 256 * MIB;

/// Locked memory can not be reclaimed. Enough for libraries that lock a page for a key.
const MEMLOCK_BYTES: rlim_t = MIB;

/// Queued signals and POSIX timers; counted per user id.
const PENDING_SIGNALS: rlim_t = 1024;

/// The one value with which the kernel starts no program that `kernel.core_pattern` names, and which
/// is too small for a file. 0 keeps from the file only (`coredump_pipe` in fs/coredump.c).
const ABORT_CORE_DUMPS: rlim_t = 1;

pub(crate) struct Rlimits;

/// Has the kernel abort core dumps of this process and its children: for the processes that are
/// outside of a session, and until the layer is applied.
pub(crate) fn abort_core_dumps() -> Result<(), LayerError> {
    set(Wanted::both(Resource::RLIMIT_CORE, ABORT_CORE_DUMPS))
}

/// One limit as it is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wanted {
    resource: Resource,
    soft: rlim_t,
    hard: rlim_t,
}

impl Wanted {
    const fn both(resource: Resource, value: rlim_t) -> Self {
        Self { resource, soft: value, hard: value }
    }

    fn clamped(self, inherited_hard: rlim_t) -> Self {
        let hard = self.hard.min(inherited_hard);
        Self { soft: self.soft.min(hard), hard, ..self }
    }
}

impl LayerCode for Rlimits {
    fn layer(&self) -> Layer {
        Layer::Rlimits
    }

    fn restrict(&self, context: &Context) -> Result<(), LayerError> {
        wanted(context).into_iter().try_for_each(set)
    }

    fn verify(&self, context: &Context) -> Result<Report, LayerError> {
        let mut clamped = Vec::new();
        for limit in wanted(context) {
            let Wanted { resource, soft, hard } = limit;
            let (soft_now, hard_now) = read(resource)?;
            if soft_now > soft || hard_now > hard {
                return Err(LayerError::not_in_force(
                    format!("getrlimit({resource:?})"),
                    format!("{soft_now} and {hard_now}, wanted {soft} and {hard}"),
                ));
            }
            if soft_now < soft {
                clamped.push(format!("{resource:?} is {soft_now}, the inherited hard limit"));
            }
        }
        let (core_limit, _) = read(Resource::RLIMIT_CORE)?;
        let uncounted = (!counts_processes(context)).then_some(UNCOUNTED_PROCESSES);
        let dumped = started_by_a_dump(&context.host.core_pattern, core_limit);
        let missing: Vec<_> = uncounted.into_iter().chain(dumped).collect();
        Ok(report(&clamped, &missing))
    }
}

/// What the host does not let be limited: what it is, and the fix.
type Missing = (&'static str, &'static str);

const UNCOUNTED_PROCESSES: Missing = (
    "RLIMIT_NPROC is not set, as without a user namespace of the session's own it counts every \
     process of the daemon's user",
    "make the namespaces layer available",
);

/// What a crash under this `kernel.core_pattern` starts in spite of this limit: core(5).
fn started_by_a_dump(core_pattern: &str, limit: rlim_t) -> Option<Missing> {
    match core_pattern.as_bytes().first() {
        Some(b'|') if limit != ABORT_CORE_DUMPS => Some((
            "with RLIMIT_CORE 0 each crash starts the program that kernel.core_pattern names, \
             outside of the sandbox",
            "start vivarium with a hard limit of core dumps of 1 or more: LimitCORE=1 in its unit",
        )),
        // `coredump_socket` in fs/coredump.c looks at no limit.
        Some(b'@') => Some((
            "no limit keeps a crash from the socket that kernel.core_pattern names",
            "set kernel.core_pattern to a program (|/path) or a file in place of a socket",
        )),
        _ => None,
    }
}

fn report(clamped: &[String], missing: &[Missing]) -> Report {
    let mut detail = "every limit read back".to_owned();
    for lower in clamped.iter().map(String::as_str).chain(missing.iter().map(|(what, _)| *what)) {
        detail.push_str("; ");
        detail.push_str(lower);
    }
    if missing.is_empty() {
        return Report::enforced(Layer::Rlimits, detail);
    }
    let fixes: Vec<_> = missing.iter().map(|(_, fix)| *fix).collect();
    Report::partial(Layer::Rlimits, detail, fixes.join("; "))
}

/// Whether RLIMIT_NPROC counts this session's processes and no others. Since Linux 5.14 the
/// count is per user namespace; on older kernels it is lower than meant, never higher.
fn counts_processes(context: &Context) -> bool {
    context.applies(Layer::Namespaces)
}

/// The limits of one kernel, before clamping.
fn wanted(context: &Context) -> Vec<Wanted> {
    let policy = &context.policy;
    let limits = &policy.limits;
    let mut all = vec![
        // A core dump would be written by the host, to wherever its core_pattern says.
        Wanted::both(Resource::RLIMIT_CORE, ABORT_CORE_DUMPS),
        // POSIX message queues are not on the seccomp list either.
        Wanted::both(Resource::RLIMIT_MSGQUEUE, 0),
        // No real-time scheduling, no priority above the normal one.
        Wanted::both(Resource::RLIMIT_RTPRIO, 0),
        Wanted::both(Resource::RLIMIT_NICE, 0),
        Wanted::both(Resource::RLIMIT_MEMLOCK, MEMLOCK_BYTES),
        Wanted::both(Resource::RLIMIT_SIGPENDING, PENDING_SIGNALS),
        Wanted { resource: Resource::RLIMIT_STACK, soft: STACK_SOFT_BYTES, hard: STACK_HARD_BYTES },
        Wanted {
            resource: Resource::RLIMIT_CPU,
            soft: value(limits.max_cpu_secs).saturating_add(START_CPU_SECONDS),
            hard: RLIM_INFINITY,
        },
        Wanted::both(Resource::RLIMIT_NOFILE, open_files(context)),
        Wanted::both(Resource::RLIMIT_FSIZE, bytes(limits.max_file_size_mb)),
    ];
    if counts_processes(context) {
        let processes = value(limits.max_procs).saturating_add(spare_processes(policy));
        all.push(Wanted::both(Resource::RLIMIT_NPROC, processes));
    }
    if !cgroup_limits_memory(policy) {
        let reserved = if context.is_wasm() { WASM_RESERVED_BYTES } else { 0 };
        let memory = bytes(limits.max_memory_mb).saturating_add(reserved);
        all.push(Wanted::both(Resource::RLIMIT_AS, memory));
    }
    all
}

/// Open files of a process. The engine's program is started by a descriptor whose number none of its own
/// may have: the filter allows to execute what is open there.
fn open_files(context: &Context) -> rlim_t {
    let wanted = value(context.policy.limits.max_open_fds);
    let held = rlim_t::from(sys::HELD_PROGRAM.unsigned_abs());
    if context.is_wasm() { wanted.min(held) } else { wanted }
}

/// Address space is not memory: libraries reserve it freely, so RLIMIT_AS only stands in for a
/// cgroup.
fn cgroup_limits_memory(policy: &Policy) -> bool {
    policy.cgroup.as_ref().is_some_and(|cgroup| cgroup.limits_memory)
}

/// How many more processes than `max_procs` the kernel's id may have: the agent, where it has
/// the same id, and one where a cgroup limits them. clone(2) looks at the rlimit first, and the
/// cgroup is to be the one that refuses, since it alone counts what it refused.
fn spare_processes(policy: &Policy) -> rlim_t {
    let agent = policy.ids.is_none();
    let cgroup = policy.cgroup.as_ref().is_some_and(|cgroup| cgroup.limits_pids);
    rlim_t::from(agent) + rlim_t::from(cgroup)
}

/// The limit's number, or the system's word for none.
fn value(limit: Limit) -> rlim_t {
    limit.get().unwrap_or(RLIM_INFINITY)
}

/// The same, of a limit in MiB.
fn bytes(limit: Limit) -> rlim_t {
    limit.times(MIB).unwrap_or(RLIM_INFINITY)
}

fn set(limit: Wanted) -> Result<(), LayerError> {
    let (_, inherited_hard) = read(limit.resource)?;
    let Wanted { resource, soft, hard } = limit.clamped(inherited_hard);
    setrlimit(resource, soft, hard)
        .map_err(|errno| LayerError::new(format!("setrlimit({resource:?}, {soft}, {hard})"), errno))
}

fn read(resource: Resource) -> Result<(rlim_t, rlim_t), LayerError> {
    getrlimit(resource).map_err(|errno| LayerError::new(format!("getrlimit({resource:?})"), errno))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use vivarium_protocol::layer::Status;
    use vivarium_protocol::policy::Network;

    use super::super::landlock::fixture;
    use super::*;

    fn resources(context: &Context) -> Vec<Resource> {
        wanted(context).into_iter().map(|limit| limit.resource).collect()
    }

    #[test]
    fn an_inherited_limit_is_never_raised() {
        let limit = Wanted { resource: Resource::RLIMIT_STACK, soft: 8, hard: 16 };
        assert_eq!(limit.clamped(RLIM_INFINITY), limit);
        assert_eq!(limit.clamped(10), Wanted { hard: 10, ..limit });
        assert_eq!(limit.clamped(4), Wanted { soft: 4, hard: 4, ..limit });
    }

    /// The numbers of docs/sandbox-layers.md, in bytes.
    #[test]
    fn limits_are_in_bytes() {
        let mut context = fixture::context(&[Layer::Rlimits], Network::None, Path::new("/"));
        let of = |context: &Context, resource| {
            let found = wanted(context).into_iter().find(|limit| limit.resource == resource);
            found.map(|limit| (limit.soft, limit.hard))
        };
        let is = |mib: u64| Some((mib << 20, mib << 20));
        assert_eq!(of(&context, Resource::RLIMIT_STACK), Some((8 << 20, 256 << 20)));
        assert_eq!(of(&context, Resource::RLIMIT_MEMLOCK), is(1));
        assert_eq!(of(&context, Resource::RLIMIT_FSIZE), is(256));
        context.policy.limits.max_file_size_mb = Limit::Unlimited;
        let none = Some((RLIM_INFINITY, RLIM_INFINITY));
        assert_eq!(of(&context, Resource::RLIMIT_FSIZE), none);
    }

    #[test]
    fn core_dumps_that_no_limit_aborts_are_missing() {
        for file in ["core", "/var/crash/%p", ""] {
            assert_eq!(started_by_a_dump(file, 0), None);
            assert_eq!(started_by_a_dump(file, 1), None);
        }
        let program = "|/usr/lib/systemd/systemd-coredump %P";
        assert_eq!(started_by_a_dump(program, 1), None);
        for limit in [0, 2, RLIM_INFINITY] {
            let (_, fix) = started_by_a_dump(program, limit).unwrap();
            assert!(fix.contains("LimitCORE=1"));
        }
        for limit in [0, 1, RLIM_INFINITY] {
            assert!(started_by_a_dump("@/run/crash.socket", limit).is_some());
        }
    }

    #[test]
    fn an_inherited_core_limit_of_zero_is_partial_under_a_program() {
        let name = "::an_inherited_core_limit_of_zero_is_partial_under_a_program";
        fixture::in_child(&format!("{}{name}", module_path!()), || {
            let layers = [Layer::Rlimits, Layer::Namespaces];
            let mut context = fixture::context(&layers, Network::None, Path::new("/"));
            setrlimit(Resource::RLIMIT_CORE, 0, 0).unwrap();
            // Setting it to 1 works for a process of root's, whose hard limit is not the last word.
            let inherited = wanted(&context).into_iter();
            inherited
                .filter(|limit| limit.resource != Resource::RLIMIT_CORE)
                .try_for_each(set)
                .unwrap();
            let status = |context: &Context| Rlimits.verify(context).unwrap().status;
            context.host.core_pattern = "core".to_owned();
            assert_eq!(status(&context), Status::Enforced);
            context.host.core_pattern = "|/bin/false".to_owned();
            assert_eq!(status(&context), Status::Partial);
        });
    }

    #[test]
    fn address_space_is_limited_only_where_no_cgroup_limits_memory() {
        let mut context = fixture::context(&[Layer::Rlimits], Network::None, Path::new("/"));
        assert!(resources(&context).contains(&Resource::RLIMIT_AS));
        context.policy.cgroup = Some(fixture::placement("/", "/"));
        assert!(!resources(&context).contains(&Resource::RLIMIT_AS));
    }

    #[test]
    fn processes_are_limited_only_in_a_user_namespace_of_their_own() {
        let layers = [Layer::Rlimits, Layer::Namespaces];
        let alone = fixture::context(&layers[..1], Network::None, Path::new("/"));
        assert!(!resources(&alone).contains(&Resource::RLIMIT_NPROC));
        let whole = fixture::context(&layers, Network::None, Path::new("/"));
        let nproc = Wanted::both(Resource::RLIMIT_NPROC, 65);
        assert!(wanted(&whole).contains(&nproc), "64 and the agent, whose id is the same");
        let mut scoped = whole;
        scoped.policy.cgroup = Some(fixture::placement("/", "/"));
        let nproc = Wanted::both(Resource::RLIMIT_NPROC, 66);
        assert!(wanted(&scoped).contains(&nproc), "the cgroup refuses first");
    }

    #[test]
    fn limits_are_read_back_from_a_real_process() {
        fixture::in_child(
            concat!(module_path!(), "::limits_are_read_back_from_a_real_process"),
            || {
                let context = fixture::context(&[Layer::Rlimits], Network::None, Path::new("/"));
                assert!(Rlimits.verify(&context).is_err(), "verified before it was applied");
                Rlimits.restrict(&context).unwrap();
                assert_eq!(Rlimits.verify(&context).unwrap().status, Status::Partial);
                assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (256, 256));
                assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (1, 1));
                let detail = Rlimits.verify(&context).unwrap().detail;
                assert!(!detail.contains("inherited hard limit"), "{detail}");

                // Either half of a limit that is above what is wanted, and one that is below it.
                setrlimit(Resource::RLIMIT_NOFILE, 100, 256).unwrap();
                let detail = Rlimits.verify(&context).unwrap().detail;
                assert!(detail.contains("RLIMIT_NOFILE is 100"), "{detail}");
                let mut lower = context;
                lower.policy.limits.max_open_fds = Limit::new(200).unwrap();
                assert!(Rlimits.verify(&lower).is_err(), "the hard limit is above");
            },
        );
    }
}
