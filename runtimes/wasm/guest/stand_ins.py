"""What WASI lacks and the kernel program or tenant code expects, made of what the host gives.

Functions on the control socket count as kernel code (guard.py): no interrupt is raised in them. The
host lets no signal in between a system call there and the noting of its result; a signal that was
there before is handled first.
"""

import _signal
import _thread
import array
import errno
import marshal
import math
import os
import posix
import sys
import time

import wit_world as host

CONTROL = 3
# Linux's number; WASI has another.
HOST_EINTR = 4
# Where componentize-py 0.25.1 puts _PyRuntime. If it is not there it is looked for, which takes
# milliseconds.
RUNTIME_AT = 3695824

# Two words of 64 bits, in halves: the signals that are blocked, and which of them are pending.
mailbox = array.array("I", b"vivarium mailbox")
monotonic = time.monotonic
python_lock = _thread.allocate_lock
UNCAUGHT = (_signal.SIGKILL, _signal.SIGSTOP)
ALL_SIGNALS = (1 << 64) - 1
known_bits: dict = {}
known_signals: dict = {}


def start():
    add_signals()
    time.sleep = sleep
    os.kill, os._exit, os.abort = kill, exit_now, abort
    _thread.allocate_lock = _thread.allocate = _thread.lock = _thread.LockType = Lock


class Lock:
    """A lock without threads: only a signal handler can release one that is waited for.

    Python's own ends the instance there.
    """

    def __init__(self):
        self._lock = python_lock()

    def acquire(self, blocking=True, timeout=-1):
        if timeout > _thread.TIMEOUT_MAX:
            raise OverflowError("timestamp out of range for platform time_t")
        if timeout < 0 and timeout != -1:
            raise ValueError("timeout value must be a non-negative number")
        if not blocking and timeout != -1:
            raise ValueError("can't specify a timeout for a non-blocking call")
        end = None if timeout == -1 else monotonic() + timeout
        while not self._lock.acquire(False):
            if not blocking:
                return False
            left = 60 if end is None else end - monotonic()
            if left <= 0:
                return False
            host.sleep(int(left * 1e9))
        return True

    def release(self):
        self._lock.release()

    def locked(self):
        return self._lock.locked()

    def _at_fork_reinit(self):
        self._lock = python_lock()

    acquire_lock, release_lock, locked_lock = acquire, release, locked

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self._lock.release()


def exit_now(status):
    host.end(status & 0xFF, 0)


def abort():
    host.end(0, _signal.SIGABRT)


def sleep(seconds, /):
    if math.isnan(seconds):
        raise ValueError("Invalid value NaN (not a number)")
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    end = monotonic() + seconds
    left = seconds
    while True:
        host.sleep(min(int(left * 1e9), 1 << 62))
        left = end - monotonic()
        if left <= 0:
            return


def kill(pid, signal, /):
    if pid != posix.getpid():
        raise ProcessLookupError(errno.ESRCH, "there is no other process in runtime wasm")
    if signal in UNCAUGHT or (signal and _signal.getsignal(signal) == _signal.SIG_DFL):
        host.end(0, signal)
    elif signal:
        _signal.raise_signal(signal)


def bits_of(signals):
    bits = known_bits.get(signals)
    if bits is None:
        bits = 0
        for signal in signals:
            bits |= 1 << signal
        bits &= ALL_SIGNALS
        # The masks of the kernel, which it sets in each execution.
        if len(known_bits) < 8:
            known_bits[signals] = bits
    return bits


def signals_of(bits):
    found = known_signals.get(bits)
    if found is None:
        found = frozenset(signal for signal in range(1, 64) if bits >> signal & 1)
        if len(known_signals) < 8:
            known_signals[bits] = found
    return set(found)


def sigpending():
    return signals_of((mailbox[2] | mailbox[3] << 32) & (mailbox[0] | mailbox[1] << 32))


def pthread_sigmask(how, mask, /):
    before = bits = mailbox[0] | mailbox[1] << 32
    given = bits_of(frozenset(mask)) if mask else 0
    if how == 0:
        bits |= given
    elif how == 1:
        bits &= ~given
    else:
        bits = given
    if bits != before:
        mailbox[0], mailbox[1] = bits & 0xFFFFFFFF, bits >> 32
        if (mailbox[2] | mailbox[3] << 32) & ~bits:
            host.sleep(0)  # Delivers them.
    return signals_of(before)


def microseconds(seconds):
    return max(int(seconds * 1e6), 1 if seconds > 0 else 0)


def setitimer(which, seconds, interval=0.0, /):
    if which != _signal.ITIMER_REAL:
        raise _signal.ItimerError(errno.EINVAL, "only ITIMER_REAL is there in runtime wasm")
    first, every = host.set_timer(microseconds(seconds), microseconds(interval))
    return first / 1e6, every / 1e6


def getitimer(which, /):
    first, every = host.get_timer()
    return first / 1e6, every / 1e6


def alarm(seconds, /):
    first, _ = host.set_timer(seconds * 1000000, 0)
    return -(-first // 1000000)


def pause():
    before = monotonic()
    host.sleep(1 << 62)
    return monotonic() - before and None


def add_signals():
    for number, name in enumerate(("SIG_BLOCK", "SIG_UNBLOCK", "SIG_SETMASK")):
        setattr(_signal, name, number)
    _signal.ITIMER_REAL, _signal.ItimerError = 0, OSError
    _signal.valid_signals = lambda: set(range(1, _signal.NSIG))
    _signal.siginterrupt = lambda signal, flag: None
    for function in (pthread_sigmask, sigpending, setitimer, getitimer, alarm, pause):
        setattr(_signal, function.__name__, function)


def on_control(function, argument):
    """One system call on the control socket, after the handlers of signals that have come."""
    while True:
        result, error = function(argument)
        if error == 0:
            return result
        if error != HOST_EINTR:
            raise OSError(error, "the control socket is gone")


def read(descriptor, size, /):
    return (
        on_control(host.control_read, size)
        if descriptor == CONTROL
        else posix.read(descriptor, size)
    )


def readv(descriptor, buffers, /):
    [buffer] = buffers
    data = read(descriptor, len(buffer))
    buffer[: len(data)] = data
    return len(data)


def write(descriptor, data, /):
    if descriptor != CONTROL:
        return posix.write(descriptor, data)
    return on_control(host.control_write, bytes(data))


def get_blocking(descriptor, /):
    return True if descriptor == CONTROL else posix.get_blocking(descriptor)


def open_path(path, flags, *args, **options):
    """A directory to return to (`O_PATH`) is its name."""
    return posix.getcwd() if flags & O_PATH else posix.open(path, flags, *args, **options)


def fchdir(directory, /):
    posix.chdir(directory)


def close(descriptor, /):
    if type(descriptor) is not str:
        posix.close(descriptor)


def nothing(*_args, **_options):
    return None


O_PATH = 1 << 30


def isolated(functions, names):
    """Functions of the kernel's, which keep their builtins, whatever tenant code does to those."""
    import builtins

    own = {**names, "__builtins__": dict(vars(builtins))}
    for function in functions:
        code = function.__code__.replace(co_filename="<vivarium/stand_ins.py>")
        own[function.__name__] = type(function)(code, own, function.__name__, function.__defaults__)
    return own


def own_posix():
    """The `posix` of the kernel program."""
    calls = (host.control_read, host.control_write, host.sleep, host.end)
    imports = isolated((*calls, host.set_timer, host.get_timer), vars(host))
    functions = (read, readv, write, get_blocking, on_control, open_path, fchdir, close, nothing)
    functions += (bits_of, signals_of, pthread_sigmask, exit_now)
    functions += (microseconds, setitimer, getitimer)
    names = isolated(functions, {**globals(), "host": Namespace(imports)})
    # As functions in C they raise nothing that a signal handler does.
    for name in ("pthread_sigmask", "setitimer", "getitimer"):
        setattr(_signal, name, names[name])
    own = type(sys)("posix")
    vars(own).update(vars(posix))
    for name in ("read", "readv", "write", "get_blocking", "fchdir", "close"):
        setattr(own, name, names[name])
    own.open, own._exit, own.O_PATH = names["open_path"], names["exit_now"], O_PATH
    own.set_blocking = own.set_inheritable = own.register_at_fork = names["nothing"]
    return own


class Namespace:
    def __init__(self, names):
        vars(self).update(names)


def load_kernel(parts):
    """The part `kernel`, with all others loaded too; as loader.py does it."""
    import builtins

    posix_of_parts = own_posix()
    names = dict(vars(builtins))
    python_import, loaded = builtins.__import__, {}

    def part_import(name, globals=None, locals=None, fromlist=(), level=0):
        if name == "posix":
            return posix_of_parts
        if name not in parts:
            return python_import(name, globals, locals, fromlist, level)
        if name not in loaded:
            part = type(sys)(name)
            vars(part)["__builtins__"] = names
            exec(marshal.loads(parts[name]), vars(part))
            loaded.setdefault(name, part)
        return loaded[name]

    code = part_import.__code__
    part_import.__code__ = code.replace(co_filename="<vivarium/loader.py>")
    names["__import__"] = part_import
    for name in EARLY:
        part_import(name)
    guard = loaded["guard"]
    # The kernel asks for it in vain, and gets on without: it has no library of the agent's.
    guard_load, guard.load = guard.load, lambda name: None if name == "ctypes" else guard_load(name)
    report = loaded["report"]
    hosts = Namespace(isolated((host.stream_error,), vars(host)))
    own = isolated((with_error_of_stream,), {**globals(), "host": hosts})
    corrected, describe = own["with_error_of_stream"], report.describe
    report.describe = lambda failure: describe(corrected(failure))
    return part_import("kernel")


context_of = BaseException.__dict__["__context__"].__get__
# Linux's numbers of errors that a limit of the session makes.
LIMITS = {27: errno.EFBIG, 28: errno.ENOSPC, 122: errno.EDQUOT}


def with_error_of_stream(failure):
    """Says of writes that failed what limit it was: the C library has EIO for every error."""
    number = LIMITS.get(host.stream_error())
    error = failure
    # A `with` statement that writes what is left as it ends makes three of one.
    for _ in range(4):
        if number and type(error) is OSError and error.errno == errno.EIO:
            error.errno, error.strerror = error.args = number, posix.strerror(number)
        error = None if error is None else context_of(error)
    return failure


# The parts of each session; the others are loaded when they are wanted.
EARLY = (
    "guard",
    "wire",
    "compiler",
    "interactive",
    "report",
    "streams",
    "source_cache",
    "render",
    "syntax",
)


def compile_once():
    """The first compile() to an AST makes Python's node types."""
    import ast

    compile(ast.parse("print(1)"), "", "exec")
    import gc

    # What is made from here on is beside what lasts.
    gc.collect()


def prepare():
    """Makes what the component was made as ready for a session, without anything of one."""
    own = (
        "app",
        "archive",
        "immortal",
        "loop",
        "missing",
        "refusals",
        "stand_ins",
        "inspection",
        "wit_world",
    )
    for name in own:
        sys.modules.pop(name, None)
    attach()


def enter(settings):
    """Makes a session of it."""
    environment = settings["environment"]
    posix.environ.clear()
    posix.environ.update((name.encode(), value.encode()) for name, value in environment.items())
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(settings["workdir"])
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        stream = open(  # noqa: SIM115 - it stays open
            descriptor, "w", 8192, "utf-8", "backslashreplace", closefd=False
        )
        stream.reconfigure(line_buffering=True)
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)


def attach():
    """Has signals delivered. Returns where _PyRuntime is."""
    address, _ = mailbox.buffer_info()
    default, ignore = id(_signal.SIG_DFL), id(_signal.SIG_IGN)
    found, why = host.signals_at(mailbox.tobytes(), address, RUNTIME_AT, default, ignore)
    if why:
        raise OSError(why)
    return found
