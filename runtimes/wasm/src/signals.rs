//! Delivers this process's signals to the guest's Python, as its own signal handler would: it notes them in
//! `_PyRuntime.signals` and sets a bit of the thread's `eval_breaker` (pycore_signal.h, pycore_ceval.h of
//! CPython 3.14), which the interpreter's loop looks at. So an interrupt keeps the guest's state.
//!
//! They are found once, in the mapping around a list that the guest passes. A guest that lies makes us write to
//! its own memory: every place is checked to be within that mapping.
//!
//! A signal waits while a system call on the control socket is made and noted: a handler that raised there would
//! tear a frame.

pub mod kept;
mod places;
mod timer;

use std::io;
use std::ptr;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

use self::timer::retry_in;
pub use self::timer::{get_timer, set_timer};

/// The socket to the agent.
pub const CONTROL: i32 = 3;
/// Python handles these; the default action of the others is the process's.
const SIGNALS: [i32; 8] = [
    libc::SIGINT,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGQUIT,
    libc::SIGXCPU,
];
/// `_PY_SIGNALS_PENDING_BIT`.
const SIGNALS_PENDING: u32 = 1 << 1;
/// How long the guest may need to note what a system call has given, in CPU time, beside the time for each byte.
const NOTING_NS: u64 = 100_000;
const NOTING_NS_PER_BYTE: u64 = 4;
/// When a signal that has to wait is tried again.
const RETRY_NS: i64 = 100_000;
/// When the guest should have seen a signal. It may have written back what it read before, and lost it.
const SEEN_NS: i64 = 5_000_000;
/// A signal that does not end the process by then has a default action that does not.
const DIES_WITHIN_NS: i64 = 100_000_000;

/// The guest's memory; null until it has said where its signals are.
static BASE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());
/// Bytes of memory that were there when it was attached.
static SIZE: AtomicU64 = AtomicU64::new(0);
static HANDLERS: AtomicU32 = AtomicU32::new(0);
static IS_TRIPPED: AtomicU32 = AtomicU32::new(0);
static BREAKER: AtomicU32 = AtomicU32::new(0);
/// Two words of the guest's: which signals it blocks, and which of them are pending.
static MAILBOX: AtomicU32 = AtomicU32::new(0);
/// Signals that are to be delivered, and those that are not seen yet, one bit each.
static PENDING: AtomicU64 = AtomicU64::new(0);
static UNSEEN: AtomicU64 = AtomicU64::new(0);
static HOLDS: AtomicBool = AtomicBool::new(false);
static HOLD_UNTIL: AtomicU64 = AtomicU64::new(0);

/// A word of the guest's memory.
fn word(at: u32) -> Option<&'static AtomicU32> {
    let base = BASE.load(SeqCst);
    let fits = u64::from(at) + 4 <= SIZE.load(SeqCst) && at.is_multiple_of(4);
    // SAFETY: within the guest's memory, which never moves (4 GiB are reserved) or shrinks, and outlives the
    // guest, the only thread of this process; aligned. The engine holds no reference to it meanwhile.
    // JUSTIFICATION: the engine gives no access to the memory of a component, least of all in a signal handler.
    (!base.is_null() && fits).then(|| unsafe { AtomicU32::from_ptr(base.add(at as usize).cast()) })
}

fn get(at: u32) -> u32 {
    word(at).map_or(0, |word| word.load(SeqCst))
}

fn set(at: u32, value: u32) {
    if let Some(word) = word(at) {
        word.store(value, SeqCst);
    }
}

fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap_or(0)
}

/// Finds the guest's memory and the places in it, to which the signals of this process go from now on. Returns where
/// `_PyRuntime` is, which is looked for if it is not at `hint`.
pub fn attach(probe: &[u8], mailbox: u32, hint: u32, numbers: [u32; 2]) -> Result<u32, String> {
    let maps =
        std::fs::read_to_string("/proc/self/maps").map_err(|e| format!("/proc/self/maps: {e}"))?;
    let (base, size) =
        writable_region(&maps, probe.as_ptr() as usize).ok_or("the probe is in no memory")?;
    // SAFETY: the region is mapped and readable, and this thread, the only one, is here and not in the guest.
    // JUSTIFICATION: the engine gives no access to the memory of a component.
    let memory = unsafe { std::slice::from_raw_parts(base as *const u8, size) };
    let places =
        places::find(memory, hint, numbers).ok_or("there is no _PyRuntime of CPython 3.14")?;
    if probe.len() != 16 || memory.get(mailbox as usize..).is_none_or(|m| !m.starts_with(probe)) {
        return Err("the probe is elsewhere".to_owned());
    }
    SIZE.store(size as u64, SeqCst);
    HANDLERS.store(places.handlers, SeqCst);
    IS_TRIPPED.store(places.is_tripped, SeqCst);
    BREAKER.store(places.eval_breaker, SeqCst);
    MAILBOX.store(mailbox, SeqCst);
    BASE.store(base as *mut u8, SeqCst);
    [0, 4, 8, 12].into_iter().for_each(|at| set(mailbox + at, 0));
    Ok(places.runtime)
}

/// The contiguous mappings that can be written around an address: from the first on, how many bytes.
fn writable_region(maps: &str, address: usize) -> Option<(usize, usize)> {
    let mut region: Option<(usize, usize)> = None;
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let end = usize::from_str_radix(end, 16).ok()?;
        if !rest.starts_with("rw") {
            continue;
        }
        region = match region {
            Some((first, last)) if last == start => Some((first, end)),
            Some((first, last)) if (first..last).contains(&address) => {
                return Some((first, last - first));
            }
            _ => Some((start, end)),
        };
    }
    region
        .filter(|(first, last)| (*first..*last).contains(&address))
        .map(|(first, last)| (first, last - first))
}

/// Takes the signals of this process. Until the guest is attached they have their default actions.
pub fn listen() -> io::Result<()> {
    // SAFETY: plain structures of the C library, zero is a value of each; the handlers only touch atomics and make
    // async-signal-safe calls.
    // JUSTIFICATION: there is no safe way to have a signal handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigfillset(&mut action.sa_mask);
        // As CPython does: a file that is too large is an error of the write.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        action.sa_sigaction = on_signal as *const () as usize;
        for number in SIGNALS.into_iter().chain([libc::SIGRTMIN()]) {
            if libc::sigaction(number, &action, ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    timer::make()
}

/// Ends this process once the other end of the control socket is gone, whatever the guest does meanwhile: a loop of tenant code
/// must not outlive what asked for it.
pub fn end_with_control() -> io::Result<()> {
    // SAFETY: as in `listen`; fcntl(2) checks the descriptor, and has SIGIO sent to this process.
    // JUSTIFICATION: rustix has no F_SETOWN, and descriptor 3 is one that this process is born with.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigfillset(&mut action.sa_mask);
        // Each frame brings one.
        action.sa_flags = libc::SA_RESTART;
        action.sa_sigaction = on_control as *const () as usize;
        let flags = libc::fcntl(CONTROL, libc::F_GETFL);
        libc::sigaction(libc::SIGIO, &action, ptr::null_mut()) == 0
            && libc::fcntl(CONTROL, libc::F_SETOWN, libc::getpid()) == 0
            && libc::fcntl(CONTROL, libc::F_SETFL, flags | libc::O_ASYNC) == 0
    };
    done.then_some(()).ok_or_else(io::Error::last_os_error)
}

extern "C" fn on_control(_: i32) {
    let errno = errno();
    let mut control = libc::pollfd { fd: CONTROL, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: poll(2) writes `control`, which is one; both are async-signal-safe.
    // JUSTIFICATION: in a signal handler, where std may not be used.
    unsafe {
        if libc::poll(&mut control, 1, 0) == 1 {
            libc::_exit(0);
        }
    }
    set_errno(errno);
}

extern "C" fn on_signal(number: i32) {
    let errno = errno();
    if let Some(bit) = SIGNALS.contains(&number).then(|| 1u64 << number) {
        PENDING.fetch_or(bit, SeqCst);
    }
    deliver();
    set_errno(errno);
}

fn errno() -> i32 {
    // SAFETY: it is this thread's.
    // JUSTIFICATION: std reads it without a way to write it back.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: it is this thread's.
    // JUSTIFICATION: std has no way to write it.
    unsafe { *libc::__errno_location() = value }
}

fn blocked() -> u64 {
    let mailbox = MAILBOX.load(SeqCst);
    u64::from(get(mailbox)) | u64::from(get(mailbox + 4)) << 32
}

/// Notes pending signals in the guest, unless they have to wait.
fn deliver() {
    let unseen = UNSEEN.load(SeqCst);
    let pending = PENDING.load(SeqCst);
    if pending == 0 && unseen == 0 {
        return;
    }
    if HOLDS.load(SeqCst) {
        // The call may not have begun, and is then to be interrupted. What the guest blocks can wait for its end.
        if has_signal() {
            retry_in(RETRY_NS);
        }
        return;
    }
    if cpu_ns() < HOLD_UNTIL.load(SeqCst) {
        return retry_in(RETRY_NS);
    }
    let (handlers, blocked, mailbox) = (HANDLERS.load(SeqCst), blocked(), MAILBOX.load(SeqCst));
    let mut still = unseen;
    for number in (1..64u32).filter(|number| (unseen >> number) & 1 == 1) {
        if get(handlers + number * 8) == 0 {
            still &= !(1 << number);
        }
    }
    for number in (1..64u32).filter(|number| (pending & !blocked) >> number & 1 == 1) {
        PENDING.fetch_and(!(1 << number), SeqCst);
        let function = get(handlers + number * 8 + 4);
        if function == get(IS_TRIPPED.load(SeqCst) + 4) {
            // SIG_DFL: the process's own action, as soon as this handler returns.
            die_of(number);
        } else if function != get(IS_TRIPPED.load(SeqCst) + 8) {
            set(handlers + number * 8, 1);
            still |= 1 << number;
        }
    }
    UNSEEN.store(still, SeqCst);
    if still != 0 {
        trip();
        retry_in(SEEN_NS);
    }
    let waiting = PENDING.load(SeqCst);
    let [low, high] =
        [waiting & u64::from(u32::MAX), waiting >> 32].map(|half| u32::try_from(half).unwrap_or(0));
    set(mailbox + 8, low);
    set(mailbox + 12, high);
}

fn trip() {
    set(IS_TRIPPED.load(SeqCst), 1);
    let breaker = BREAKER.load(SeqCst);
    set(breaker, get(breaker) | SIGNALS_PENDING);
}

/// Whether the guest should run its handlers first.
fn has_signal() -> bool {
    let is_tripped = get(IS_TRIPPED.load(SeqCst)) != 0;
    if is_tripped {
        // After a handler that raised, the interpreter has not always told its loop to look again.
        trip();
    }
    is_tripped || PENDING.load(SeqCst) & !blocked() != 0
}

/// Fails if a signal came before what was read just now did: an interrupt for what has ended would be raised in what has
/// been read.
pub fn handled_first() -> io::Result<()> {
    if has_signal() { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
}

/// Makes a system call on the control socket that no handler of the guest's tears from its result: before it, they
/// run first (EINTR), and after it, they wait for the guest to note the result. Returns that and the number of the
/// error.
pub fn uninterrupted(call: impl FnMut() -> io::Result<usize>) -> (u32, u32) {
    let mut call = call;
    HOLDS.store(true, SeqCst);
    let result = loop {
        if has_signal() {
            break Err(io::Error::from_raw_os_error(libc::EINTR));
        }
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => break done,
        }
    };
    if let Ok(count) = &result {
        HOLD_UNTIL.store(cpu_ns() + NOTING_NS + *count as u64 * NOTING_NS_PER_BYTE, SeqCst);
    } else {
        HOLD_UNTIL.store(0, SeqCst);
    }
    HOLDS.store(false, SeqCst);
    deliver();
    match result {
        Ok(count) => (u32::try_from(count).unwrap_or(u32::MAX), 0),
        Err(error) => (0, u32::try_from(error.raw_os_error().unwrap_or(libc::EIO)).unwrap_or(0)),
    }
}

pub fn read(fd: i32, data: &mut [u8]) -> io::Result<usize> {
    // SAFETY: read(2) checks the descriptor, and writes within `data`.
    // JUSTIFICATION: the control socket is a descriptor that this process is born with.
    let count = unsafe { libc::read(fd, data.as_mut_ptr().cast(), data.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

pub fn write(fd: i32, data: &[u8]) -> io::Result<usize> {
    // SAFETY: write(2) checks the descriptor, and reads within `data`.
    // JUSTIFICATION: as above.
    let count = unsafe { libc::write(fd, data.as_ptr().cast(), data.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Ends this process by a signal's default action, if it has one that does. By a timer: the session's filter has no
/// call that sends a signal.
fn die_of(signal: u32) {
    let signal = i32::try_from(signal).unwrap_or(0);
    // SAFETY: resets the action of one signal; numbers that are none fail. Where there can be no timer, ends this
    // process at once; both are async-signal-safe.
    // JUSTIFICATION: no safe way.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        if timer::send(signal).is_err() {
            libc::_exit(128 + signal);
        }
    }
}

/// The same, and waits for it.
pub fn end_by(signal: u32) {
    if signal != 0 {
        die_of(signal);
        let end = libc::timespec { tv_sec: 0, tv_nsec: DIES_WITHIN_NS };
        // SAFETY: reads `end`.
        // JUSTIFICATION: std's sleep goes on after a signal.
        unsafe { libc::nanosleep(&end, ptr::null_mut()) };
    }
}

/// Sleeps, or until there is a signal for the guest.
pub fn sleep(nanoseconds: u64) {
    deliver();
    if nanoseconds == 0 || has_signal() {
        return;
    }
    let time = std::time::Duration::from_nanos(nanoseconds);
    let spec = libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    };
    // SAFETY: reads `spec`.
    // JUSTIFICATION: std's sleep goes on after a signal.
    unsafe { libc::nanosleep(&spec, ptr::null_mut()) };
    deliver();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_around_an_address_is_all_that_can_be_written_on_both_sides() {
        let maps = "1000-2000 ---p 0 0 0\n2000-3000 rw-p 0 0 0 /memfd\n3000-5000 rw-p 0 0 0\n5000-9000 ---p 0 0 0\n\
                    a000-b000 rw-p 0 0 0\n";
        assert_eq!(writable_region(maps, 0x3800), Some((0x2000, 0x3000)));
        assert_eq!(writable_region(maps, 0x2800), Some((0x2000, 0x3000)));
        assert_eq!(writable_region(maps, 0xa000), Some((0xa000, 0x1000)));
        assert_eq!(writable_region(maps, 0x6000), None);
    }
}
