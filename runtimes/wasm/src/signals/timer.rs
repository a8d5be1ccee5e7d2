//! The POSIX timer by which a signal that has to wait is tried again, those by which the process ends,
//! and the guest's. A part of [`super`], where unsafe code may stand.

use std::io;
use std::ptr;
use std::sync::OnceLock;

/// The number of the kernel's timer: glibc has it in place of a pointer, and the first is 0.
static TIMER: OnceLock<usize> = OnceLock::new();

/// Makes the timer, if it is not there: guests can ask for it again and again, and timers count with the signals that
/// wait for all processes of a user (RLIMIT_SIGPENDING).
pub(super) fn make() -> io::Result<()> {
    if TIMER.get().is_none() {
        let timer = create(libc::SIGRTMIN())?;
        TIMER.get_or_init(|| timer as usize);
    }
    Ok(())
}

/// Has the timer's signal come, once.
pub(super) fn retry_in(nanoseconds: i64) {
    if let Some(timer) = TIMER.get() {
        start(*timer as libc::timer_t, nanoseconds);
    }
}

/// Has a signal come now.
pub(super) fn send(signal: i32) -> io::Result<()> {
    start(create(signal)?, 1);
    Ok(())
}

/// A timer that sends this process a signal.
fn create(signal: i32) -> io::Result<libc::timer_t> {
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: a plain structure of the C library, zero is a value of it; timer_create(2) writes `timer`, and makes one
    // system call.
    // JUSTIFICATION: rustix has no timers.
    let created = unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = signal;
        libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer)
    };
    if created == 0 { Ok(timer) } else { Err(io::Error::last_os_error()) }
}

fn start(timer: libc::timer_t, nanoseconds: i64) {
    // SAFETY: `timer` is what timer_create gave, and is never deleted; async-signal-safe.
    // JUSTIFICATION: as above.
    unsafe {
        let mut when: libc::itimerspec = std::mem::zeroed();
        when.it_value.tv_nsec = nanoseconds;
        libc::timer_settime(timer, 0, &when, ptr::null_mut());
    }
}

fn timeval(microseconds: u64) -> libc::timeval {
    let [seconds, rest] = [microseconds / 1_000_000, microseconds % 1_000_000];
    libc::timeval {
        tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX),
        tv_usec: i64::try_from(rest).unwrap_or(0),
    }
}

fn microseconds(time: libc::timeval) -> u64 {
    u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0)
}

/// Sets the timer of SIGALRM. Returns what was left, and its interval.
pub fn set_timer(first: u64, interval: u64) -> (u64, u64) {
    let new = libc::itimerval { it_value: timeval(first), it_interval: timeval(interval) };
    let mut old = new;
    // SAFETY: reads `new`, writes `old`.
    // JUSTIFICATION: no safe wrapper.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &new, &mut old) };
    (microseconds(old.it_value), microseconds(old.it_interval))
}

pub fn get_timer() -> (u64, u64) {
    let mut now = libc::itimerval { it_value: timeval(0), it_interval: timeval(0) };
    // SAFETY: writes `now`.
    // JUSTIFICATION: no safe wrapper.
    unsafe { libc::getitimer(libc::ITIMER_REAL, &mut now) };
    (microseconds(now.it_value), microseconds(now.it_interval))
}
