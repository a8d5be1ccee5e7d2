"""Separates the kernel from the code it runs: interrupts, imports, repair.

The kernel never raises an interrupt in its own code. Python calls a signal handler with the frame
that was about to go on. If that frame runs kernel code, `on_sigint` raises nothing and leaves the
interrupt for the next `call_user` of the same execution. In any other frame, and in `call_user`, it
raises KeyboardInterrupt. So no interrupt hits the kernel, not even at the very end of the user's
code, and none outlives its execution. Callers keep the other half of the rule: they call whatever
may run user code or block through `call_user`, inside a `try`.

User code enters kernel functions (`display`, hooks of its libraries) through `call_for_user`, which
raises a held-back interrupt as it leaves. A function marked `interruptible` may be interrupted
itself, so it must hold nothing that an interrupt would leave half done.
"""

# Parts that are loaded later import these from here, since by then user code may have replaced them
# in sys.modules.
import _signal
import builtins
import posix
import sys
from _signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask, signal, valid_signals
from _thread import RLock, allocate_lock, get_ident
from sys import getrecursionlimit, setprofile, setrecursionlimit, settrace
from time import monotonic, process_time

# Only type checkers know it as True: the kernel does not load `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
else:
    Any = object

# sys.monitoring, since 3.12: the numbers of its tools.
monitoring: Any = getattr(sys, "monitoring", None)
TOOLS = range(6) if monitoring else ()
set_events: Any = monitoring.set_events if monitoring else None
get_tool: Any = monitoring.get_tool if monitoring else None
modules = sys.modules

# The user's module, which is not the one that the bootstrap ran in.
main_module = type(sys)("__main__")

# Where `load` looks: not in the workdir, which comes first in the user's path as ''.
SAFE_PATH = [entry for entry in sys.path if entry]
STDLIB = (getattr(modules.get("os"), "__file__", None) or "").rpartition("/")[0] + "/"

traceback_of = BaseException.__dict__["__traceback__"].__get__

# Every part is compiled under a file name with this prefix (inspect_interpreter.py).
FILE_PREFIX = "<vivarium/"

ALL_BUT_SIGINT = valid_signals() - {SIGINT}

DEFAULT_RECURSION_LIMIT = 1000
# Tracebacks can not be formatted below this limit.
LEAST_RECURSION_LIMIT = 200


class State:
    running = False
    interrupted = False
    signal_mask = ()
    control_is_open = True
    # The process and thread that Python's signal handlers run in.
    pid = posix.getpid()
    thread = get_ident()
    # Functions to call at the end of an execution, added by parts that are loaded later.
    post_execute: list = []


state = State()


def call_user(function, *args):
    """Calls a function that may run user code or block. Call it inside a `try`."""
    if state.interrupted and get_ident() == state.thread:
        state.interrupted = False
        raise KeyboardInterrupt
    return function(*args)


# Kernel code in which an interrupt may be raised.
INTERRUPTIBLE = {call_user.__code__}


def interruptible(function):
    """Allows an interrupt to be raised in a kernel function and the functions inside it."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        INTERRUPTIBLE.add(code)
        codes += [constant for constant in code.co_consts if type(constant) is type(code)]
    return function


def update_wrapper(wrapper, wrapped):
    """Makes a kernel function look like the library's function that it replaces."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(wrapper, name, getattr(wrapped, name, None))
    wrapper.__wrapped__ = wrapped
    return interruptible(wrapper)


@interruptible
def call_for_user(function, *args, **options):
    """Calls a kernel function for user code, in any thread."""
    try:
        return function(*args, **options)
    finally:
        if state.interrupted and get_ident() == state.thread:
            state.interrupted = False
            raise KeyboardInterrupt


def may_raise_in(frame):
    """Whether a signal handler that was called with this frame may raise an exception."""
    return frame is None or not is_kernel_code(frame.f_code) or frame.f_code in INTERRUPTIBLE


def on_sigint(number, frame):
    """The handler of SIGINT; see the top of this file."""
    if not state.running:
        return
    if may_raise_in(frame):
        raise KeyboardInterrupt
    state.interrupted = True


def is_kernel_code(code):
    return code.co_filename.startswith(FILE_PREFIX)


def call_without_workdir(function, *args):
    """Calls a function that may import modules, with a `sys.path` without the user's files."""
    users_path, sys.path = sys.path, list(SAFE_PATH)
    try:
        return call_user(function, *args)
    finally:
        sys.path = users_path


def workdir():
    """The session's workdir, which is not HOME in a session that has a home."""
    return posix.environ[b"TMPDIR"].decode().rpartition("/")[0]


def load(name):
    """A module of the standard library; None if the user put another in its place."""
    if name not in modules:
        # All threads share the path, so a user's thread imports as it always does.
        main = get_ident() == state.thread
        (call_without_workdir if main else call_user)(__import__, name)
    module = modules.get(name)
    origin = getattr(module, "__file__", None)
    if origin is None and name in sys.builtin_module_names:
        return module
    return module if type(origin) is str and origin.startswith(STDLIB) else None


def start():
    """Prepares the process, before the first execution."""
    # A kernel forked from a template has its own.
    state.pid = posix.getpid()
    state.thread = get_ident()
    # Programs that user code executes do not inherit the control socket, nor do its forks.
    posix.set_inheritable(3, False)
    posix.register_at_fork(after_in_child=close_control)
    state.signal_mask = pthread_sigmask(SIG_BLOCK, ())
    # As in an interactive interpreter. Without -P the workdir is on the path already.
    if sys.path[:1] != [""]:
        sys.path.insert(0, "")
    sys.argv = [""]
    sys.orig_argv = [sys.executable]
    restore()


def is_forked():
    """Whether this process is a child that user code forked."""
    return not state.control_is_open or posix.getpid() != state.pid


def close_control():
    """Closes the control socket in a child that user code forked."""
    if state.control_is_open:
        state.control_is_open = False
        try:
            posix.close(3)
        except OSError:
            pass


def stop_tracing():
    """Ends the user's tracing, profiling and monitoring before more kernel code runs."""
    raised = None
    for _ in range(3):  # A profile function sees these very calls and may raise.
        try:
            setprofile(None)
            settrace(None)
            for tool in TOOLS:
                if get_tool(tool) is not None:
                    set_events(tool, 0)
            break
        except BaseException as error:
            raised = error
    if raised is not None and raised_by_user(raised):
        raise raised


def restore():
    """Restores the state that the last execution may have changed and the next one needs."""
    if getrecursionlimit() < LEAST_RECURSION_LIMIT:
        setrecursionlimit(DEFAULT_RECURSION_LIMIT)
    # Before the mask is reset: a SIGINT that the code had blocked arrives then.
    signal(SIGINT, on_sigint)
    if modules.get("__main__") is not main_module:
        modules["__main__"] = main_module
    names = vars(main_module)
    if names.get("__builtins__") is not builtins:
        names["__builtins__"] = builtins
    if "__name__" not in names:
        names["__name__"] = "__main__"
    # Otherwise a line number that warned once never warns again, in any later source.
    names.pop("__warningregistry__", None)


def block_signals():
    """Blocks all signals but SIGINT in this thread, until `restore_signal_mask`."""
    pthread_sigmask(SIG_BLOCK, ALL_BUT_SIGINT)


def restore_signal_mask():
    """Restores the signal mask with which every execution begins."""
    pthread_sigmask(SIG_SETMASK, state.signal_mask)


def raised_by_user(error):
    """Whether an exception was raised in code that is not the kernel's."""
    trace = traceback_of(error)
    while trace.tb_next is not None:
        trace = trace.tb_next
    return not is_kernel_code(trace.tb_frame.f_code)
