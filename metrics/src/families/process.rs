//! The daemon's own process, by the names that every Prometheus client gives it.

use procfs::process::{LimitValue, Process as Proc};
use procfs::{WithCurrentSystemInfo as _, boot_time_secs, ticks_per_second};

use super::Family;
use crate::MetricsError;
use crate::handles::{Gauge, Total, float};
use crate::register::Register;

#[derive(Debug)]
pub struct Process {
    cpu: Total<0>,
    resident: Gauge<0>,
    virtual_: Gauge<0>,
    threads: Gauge<0>,
    open_fds: Gauge<0>,
    max_fds: Gauge<0>,
    start_time: Gauge<0>,
    lines_dropped: Total<0>,
}

impl Family for Process {
    const TITLE: &'static str = "Process";

    fn declare(register: &mut Register) -> Result<Self, MetricsError> {
        Ok(Self {
            cpu: register.total(
                "process_cpu_seconds_total",
                &[],
                "CPU time of the daemon, without its sessions.",
            )?,
            resident: register.gauge(
                "process_resident_memory_bytes",
                &[],
                "Resident memory of the daemon, without its sessions.",
            )?,
            virtual_: register.gauge(
                "process_virtual_memory_bytes",
                &[],
                "Address space of the daemon.",
            )?,
            threads: register.gauge("process_threads", &[], "Threads of the daemon.")?,
            open_fds: register.gauge(
                "process_open_fds",
                &[],
                "Open file descriptors of the daemon.",
            )?,
            max_fds: register.gauge(
                "process_max_fds",
                &[],
                "File descriptors that the daemon may have open (RLIMIT_NOFILE); absent if \
                 unlimited.",
            )?,
            start_time: register.gauge(
                "process_start_time_seconds",
                &[],
                "When the daemon started, in seconds since 1970.",
            )?,
            lines_dropped: register.total(
                "vivarium_log_lines_dropped_total",
                &[],
                "Log lines dropped because standard error or the journal accepted no more, or \
                 could not be written.",
            )?,
        })
    }
}

impl Process {
    /// Scrape: log lines that were dropped.
    pub fn has_dropped_lines(&self, count: u64) {
        self.lines_dropped.set([], float(count));
    }

    /// Scrape: reads it all from /proc (`proc_pid_stat(5)`). What can not be read is absent.
    pub fn read(&self) {
        let Ok(own) = Proc::myself() else { return };
        if let Ok(stat) = own.stat() {
            let ticks = float(ticks_per_second());
            self.cpu.set([], float(stat.utime + stat.stime) / ticks);
            self.resident.set_count([], stat.rss_bytes().get());
            self.virtual_.set_count([], stat.vsize);
            self.threads.set_count([], u64::try_from(stat.num_threads).unwrap_or(0));
            if let Ok(boot) = boot_time_secs() {
                self.start_time.set([], float(boot) + float(stat.starttime) / ticks);
            }
        }
        if let Ok(open) = own.fd_count() {
            self.open_fds.set_count([], open as u64);
        }
        if let Ok(limits) = own.limits()
            && let LimitValue::Value(max) = limits.max_open_files.soft_limit
        {
            self.max_fds.set_count([], max);
        }
    }
}
