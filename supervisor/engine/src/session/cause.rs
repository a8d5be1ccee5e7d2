//! From the way a kernel ended to a cause, with its evidence in words.

use nix::sys::signal::Signal;
use vivarium_protocol::outcome::{Cause, Exception, KernelEnd};
use vivarium_protocol::policy::{Limits, Network};

use crate::cgroup::{CgroupEventCounts, OomOrigin};

/// What was counted against a kernel since the last answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Evidence {
    pub(super) oom_kills: u64,
    pub(super) forks_refused: u64,
    pub(super) memory_peak_bytes: Option<u64>,
    /// If any was killed for want of memory: of whose.
    pub(super) oom_origin: OomOrigin,
}

impl Evidence {
    pub(super) const fn of(
        counts: CgroupEventCounts,
        memory_peak_bytes: Option<u64>,
        oom_origin: OomOrigin,
    ) -> Self {
        let CgroupEventCounts { oom_kills, forks_refused } = counts;
        Self { oom_kills, forks_refused, memory_peak_bytes, oom_origin }
    }
}

pub(super) fn explain(end: &KernelEnd, limits: &Limits, evidence: Evidence) -> (Cause, String) {
    let cpu = || format!("the limit of CPU time (max_cpu_secs {})", limits.max_cpu_secs);
    let (cause, mut detail) = match end {
        _ if evidence.oom_kills > 0 => (Cause::MemoryLimit, memory(limits, evidence)),
        KernelEnd::CpuLimit { used_us } => {
            (Cause::CpuLimit, format!("{} was reached: {} s used", cpu(), used_us / 1_000_000))
        }
        KernelEnd::Signaled { signal, .. } if *signal == Signal::SIGXCPU as i32 => {
            (Cause::CpuLimit, format!("the kernel was killed by SIGXCPU: {} was reached", cpu()))
        }
        KernelEnd::Signaled { signal, by_agent: true } => {
            (Cause::Agent, format!("the kernel was killed by its agent ({})", signal_name(*signal)))
        }
        KernelEnd::Signaled { signal, by_agent: false } => {
            (Cause::Signal, format!("the kernel was killed by {}", signal_name(*signal)))
        }
        KernelEnd::Exited(code) => {
            (Cause::Exited, format!("the kernel exited by itself with code {code}"))
        }
        KernelEnd::Protocol(what) => (
            Cause::Protocol,
            format!("the kernel was killed because it broke the protocol: {}", bounded(what)),
        ),
        KernelEnd::NotStarted(why) => {
            (Cause::KernelStart, format!("no kernel could be started: {}", bounded(why)))
        }
        KernelEnd::Unseen => (
            Cause::Unknown,
            "the kernel ended, and how is not known: the template that it was forked from had \
             ended before it, and before Linux 6.15 nobody else is told"
                .to_owned(),
        ),
    };
    if evidence.forks_refused > 0 {
        detail.push_str("; ");
        detail.push_str(&refusals(limits, evidence.forks_refused));
    }
    (cause, detail)
}

/// Which limit an exception that nobody caught is about, if it is one of those that the kernel
/// answers with an error and not with a signal.
pub(super) fn explain_error(
    exception: Option<&Exception>,
    limits: &Limits,
    network: Network,
    forks_refused: u64,
) -> (Option<Cause>, String) {
    if forks_refused > 0 {
        return (Some(Cause::PidsLimit), refusals(limits, forks_refused));
    }
    // Only tenant code is misled if it raises this itself.
    let is_full = |exception: &Exception| {
        exception.type_name == "OSError"
            && NO_SPACE.iter().any(|text| exception.message.starts_with(text))
    };
    if exception.is_some_and(is_full) {
        let detail = format!(
            "no space was left in workdir, /tmp and /dev/shm together (max_disk_mb {}, \
             max_inodes {})",
            limits.max_disk_mb, limits.max_inodes
        );
        return (Some(Cause::DiskLimit), detail);
    }
    if network != Network::Full && exception.is_some_and(is_of_network) {
        let network: &str = network.into();
        return (None, format!("code reaches no other host: the session's network is {network}"));
    }
    (None, String::new())
}

/// Whether code met the lack of a network. Libraries raise exceptions of their own for it, whose
/// causes are in the traceback.
fn is_of_network(exception: &Exception) -> bool {
    exception.traceback.lines().any(|line| {
        line.starts_with("socket.gaierror: ") || line.contains("[Errno 101] Network is unreachable")
    })
}

/// `str()` of Python's OSError for ENOSPC begins so, with Linux's number and that of WASI, where 28 is EINVAL.
const NO_SPACE: [&str; 2] = ["[Errno 28] No space", "[Errno 51] No space"];

pub(super) fn refusals(limits: &Limits, count: u64) -> String {
    format!("{count} times a new process was refused (max_procs {})", limits.max_procs)
}

fn memory(limits: &Limits, evidence: Evidence) -> String {
    let peak = evidence
        .memory_peak_bytes
        .map(|bytes| format!(", the peak was {} MiB", bytes >> 20))
        .unwrap_or_default();
    let what = match evidence.oom_origin {
        OomOrigin::Session => {
            format!("the limit is {} MiB (max_memory_mb){peak}", limits.max_memory_mb)
        }
        OomOrigin::Tenant { max_bytes } => {
            let ceiling = max_bytes.map(|bytes| format!(" of {} MiB", bytes >> 20));
            format!(
                "all sessions of the tenant together reached its ceiling{} (tenant.max_memory_mb), \
                 and this session was chosen{peak}",
                ceiling.unwrap_or_default()
            )
        }
        OomOrigin::Host => format!(
            "the service or the host has no more, and this session was chosen{peak}, within its \
             limit of {} MiB (max_memory_mb)",
            limits.max_memory_mb
        ),
    };
    format!("out of memory: {what}; memory.events counts {} killed", evidence.oom_kills)
}

/// `SIGSEGV (11)`; real-time signals have only their number.
pub(super) fn signal_name(signal: i32) -> String {
    Signal::try_from(signal)
        .map_or_else(|_| format!("signal {signal}"), |name| format!("{name} ({signal})"))
}

/// The first part of what may be long.
pub(super) fn bounded(text: &str) -> String {
    const MAX_CHARS: usize = 2000;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::output::tests::limits;

    fn cause_of(end: KernelEnd) -> (Cause, String) {
        explain(&end, &limits(), Evidence::default())
    }

    #[test]
    fn each_end_has_its_cause_and_names_its_evidence() {
        let signaled = |signal, by_agent| KernelEnd::Signaled { signal, by_agent };
        for (end, cause, evidence) in [
            (KernelEnd::Exited(7), Cause::Exited, "code 7"),
            (signaled(11, false), Cause::Signal, "SIGSEGV (11)"),
            (signaled(34, false), Cause::Signal, "signal 34"),
            (signaled(9, true), Cause::Agent, "SIGKILL"),
            (signaled(24, false), Cause::CpuLimit, "SIGXCPU"),
            (KernelEnd::CpuLimit { used_us: 2_500_000 }, Cause::CpuLimit, "2 s used"),
            (KernelEnd::Protocol("frame of 9 GB".into()), Cause::Protocol, "frame of 9 GB"),
            (KernelEnd::NotStarted("ENOEXEC".into()), Cause::KernelStart, "ENOEXEC"),
            (KernelEnd::Unseen, Cause::Unknown, "not known"),
        ] {
            let (found, detail) = cause_of(end);
            assert_eq!(found, cause, "{detail}");
            assert!(detail.contains(evidence), "{detail}");
        }
    }

    fn exception(type_name: &str, message: &str) -> Exception {
        let (type_name, message) = (type_name.to_owned(), message.to_owned());
        Exception { type_name, message, traceback: String::new() }
    }

    fn explained(exception: &Exception, forks_refused: u64) -> (Option<Cause>, String) {
        explain_error(Some(exception), &limits(), Network::Loopback, forks_refused)
    }

    #[test]
    fn errors_of_a_limit_are_told_from_others() {
        for number in [28, 51] {
            let message = format!("[Errno {number}] No space left on device: 'big'");
            let (cause, detail) = explained(&exception("OSError", &message), 0);
            assert_eq!(cause, Some(Cause::DiskLimit));
            assert!(detail.contains("max_disk_mb 1, max_inodes 64"), "{detail}");
        }
        let invalid = exception("OSError", "[Errno 28] Invalid argument");
        let refused = exception("BlockingIOError", "[Errno 11] Resource temporarily unavailable");
        let (cause, detail) = explained(&refused, 2);
        assert_eq!(cause, Some(Cause::PidsLimit));
        assert!(detail.contains("2 times a new process was refused (max_procs 8)"), "{detail}");
        for other in [refused, invalid, exception("ValueError", "[Errno 28]")] {
            assert_eq!(explained(&other, 0), (None, String::new()));
        }
    }

    #[test]
    fn exceptions_for_want_of_a_network_say_which_the_session_has() {
        let lookup =
            "socket.gaierror: [Errno -3] Temporary failure in name resolution\n\nDuring ...";
        let connect = "requests.ConnectionError: [Errno 101] Network is unreachable";
        for traceback in [lookup, connect] {
            let raised = Exception { traceback: traceback.into(), ..exception("URLError", "") };
            let (cause, detail) = explained(&raised, 0);
            assert_eq!(cause, None);
            assert_eq!(detail, "code reaches no other host: the session's network is loopback");
            let full = explain_error(Some(&raised), &limits(), Network::Full, 0);
            assert_eq!(full, (None, String::new()));
        }
        let other = Exception { traceback: "x: socket.gaierror: ".into(), ..exception("x", "") };
        assert_eq!(explained(&other, 0), (None, String::new()));
    }

    #[test]
    fn memory_events_outweigh_the_signal_they_led_to() {
        let counts = CgroupEventCounts { oom_kills: 2, forks_refused: 3 };
        let evidence = Evidence::of(counts, Some(64 << 20), OomOrigin::Session);
        let end = KernelEnd::Signaled { signal: 9, by_agent: false };
        let (cause, detail) = explain(&end, &limits(), evidence);
        assert_eq!(cause, Cause::MemoryLimit);
        for part in ["64 MiB", "counts 2 killed", "3 times a new process was refused"] {
            assert!(detail.contains(part), "{detail}");
        }
    }

    #[test]
    fn whose_memory_was_used_up_is_told() {
        let counts = CgroupEventCounts { oom_kills: 1, forks_refused: 0 };
        let detail_of = |oom_origin| {
            let evidence = Evidence::of(counts, Some(5 << 20), oom_origin);
            let end = KernelEnd::Signaled { signal: 9, by_agent: false };
            let (cause, detail) = explain(&end, &limits(), evidence);
            assert_eq!(cause, Cause::MemoryLimit);
            detail
        };
        let tenant = detail_of(OomOrigin::Tenant { max_bytes: Some(300 << 20) });
        assert!(
            tenant.contains("reached its ceiling of 300 MiB (tenant.max_memory_mb)"),
            "{tenant}"
        );
        assert!(!tenant.contains("the limit is"), "{tenant}");
        let gone = detail_of(OomOrigin::Tenant { max_bytes: None });
        assert!(gone.contains("reached its ceiling (tenant"), "{gone}");
        assert!(detail_of(OomOrigin::Host).contains("the service or the host has no more"));
    }
}
