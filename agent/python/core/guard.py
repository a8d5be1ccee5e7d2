"""What stands between the runner and the code it runs: interrupts, loading, repair.

No interrupt is ever raised in the runner. Python calls a signal handler with the frame that
was about to go on: if it is one of ours, `on_sigint` raises nothing and leaves the interrupt
for the next `foreign` call of the same execution; in any other frame, and in `foreign`, it
raises KeyboardInterrupt. So there is no moment, be it the very end of the code, at which an
interrupt hits the runner, and none outlives its execution. The other half of the rule is the
callers': whatever may run tenant code or block goes through `foreign`, within a `try`.

What tenant code calls of ours (`display`, hooks of its libraries) comes in by `entered`, which
raises what came meanwhile as it leaves; or it is `interruptible`, and then holds nothing that an
interrupt would leave half done.
"""

# Also for parts that are loaded later: what the tenant put into sys.modules by then is not theirs.
import _signal
import builtins
import posix
import sys
from _signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask, signal, valid_signals
from _thread import get_ident
from sys import getrecursionlimit, setprofile, setrecursionlimit, settrace
from time import monotonic, process_time

# Of sys.monitoring, since 3.12: the numbers of its tools, and what ends their events.
TOOLS = range(6) if sys.version_info >= (3, 12) else ()
set_events = sys.monitoring.set_events if TOOLS else None
get_tool = sys.monitoring.get_tool if TOOLS else None
modules = sys.modules

# The tenant's module. Not the one the bootstrap ran in.
main_module = type(sys)("__main__")

# Where `load` looks: not in the workdir, which is first in the tenant's path as ''.
SAFE_PATH = [entry for entry in sys.path if entry]
STDLIB = (getattr(modules.get("os"), "__file__", None) or "").rpartition("/")[0] + "/"

traceback_of = BaseException.__dict__["__traceback__"].__get__

# Every part is compiled under a name that begins so.
OURS = "<vivarium/"

MASKED = valid_signals() - {SIGINT}

DEFAULT_RECURSION_LIMIT = 1000
# Below this a traceback can not be formatted.
LEAST_RECURSION_LIMIT = 200


class State:
    """What changes while the kernel lives."""

    running = False
    interrupted = False
    signal_mask = ()
    control_is_open = True
    # The process and thread that Python's signal handlers run in.
    pid = posix.getpid()
    thread = get_ident()
    # What parts that were loaded meanwhile do at the end of an execution.
    at_end = []


def foreign(function, *args):
    """Calls what may run tenant code, or block. Within a `try`."""
    if State.interrupted and get_ident() == State.thread:
        State.interrupted = False
        raise KeyboardInterrupt
    return function(*args)


# Ours, but called where an interrupt belongs to the tenant's code.
INTERRUPTIBLE = {foreign.__code__}


def interruptible(function):
    """Marks a function of ours, and those within it, as one to raise an interrupt in."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        INTERRUPTIBLE.add(code)
        codes += [constant for constant in code.co_consts if type(constant) is type(code)]
    return function


def imitate(ours, theirs):
    """Makes a function look like the one it takes the place of."""
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(ours, name, getattr(theirs, name, None))
    ours.__wrapped__ = theirs
    return interruptible(ours)


@interruptible
def entered(function, *args, **options):
    """Calls a function of ours for tenant code, in whichever thread that runs."""
    try:
        return function(*args, **options)
    finally:
        if State.interrupted and get_ident() == State.thread:
            State.interrupted = False
            raise KeyboardInterrupt


def raises_here(frame):
    """Whether a signal handler that was called with this frame may raise."""
    return frame is None or not is_ours(frame.f_code) or frame.f_code in INTERRUPTIBLE


def on_sigint(number, frame):
    """The handler of SIGINT; see the top of this file."""
    if not State.running:
        return
    if raises_here(frame):
        raise KeyboardInterrupt
    State.interrupted = True


def is_ours(code):
    """Whether this is the runner's code."""
    return code.co_filename.startswith(OURS)


def away_from_workdir(function, *args):
    """Calls what imports, or may, with a path that leads to no file of the tenant's."""
    tenants, sys.path = sys.path, list(SAFE_PATH)
    try:
        return foreign(function, *args)
    finally:
        sys.path = tenants


def load(name):
    """A module of the standard library; None if the tenant has another in its place."""
    if name not in modules:
        # The path is one for all threads: one of the tenant's imports as it always does.
        main = get_ident() == State.thread
        (away_from_workdir if main else foreign)(__import__, name)
    module = modules.get(name)
    origin = getattr(module, "__file__", None)
    return module if type(origin) is str and origin.startswith(STDLIB) else None


def start():
    """Prepares the process, before the first execution."""
    # Not those of a template, if it was that that loaded us.
    State.pid = posix.getpid()
    State.thread = get_ident()
    # Not inherited by programs that the code executes; nor by forks of it.
    posix.set_inheritable(3, False)
    posix.register_at_fork(after_in_child=close_control)
    State.signal_mask = pthread_sigmask(SIG_BLOCK, ())
    # As in an interactive interpreter. The workdir is on the path already unless we run with -P.
    if sys.path[:1] != [""]:
        sys.path.insert(0, "")
    sys.argv = [""]
    sys.orig_argv = [sys.executable]
    restore()


def is_forked():
    """Whether this is a child of the tenant's that still runs our code."""
    return not State.control_is_open or posix.getpid() != State.pid


def close_control():
    """In a forked child of the tenant's: the control socket is not its."""
    if State.control_is_open:
        State.control_is_open = False
        try:
            posix.close(3)
        except OSError:
            pass


def stop_tracing():
    """Ends the code's tracing, profiling and monitoring before more of the runner runs."""
    raised = None
    for _ in range(3):  # A profile function sees these very calls, and may raise.
        try:
            setprofile(None)
            settrace(None)
            for tool in TOOLS:
                if get_tool(tool) is not None:
                    set_events(tool, 0)
            break
        except BaseException as error:
            raised = error
    if raised is not None and is_foreign(raised):
        raise raised


def restore():
    """Puts right what the next execution needs and the last one may have changed."""
    if getrecursionlimit() < LEAST_RECURSION_LIMIT:
        setrecursionlimit(DEFAULT_RECURSION_LIMIT)
    # Before the mask is reset, when a SIGINT arrives that the code had blocked.
    signal(SIGINT, on_sigint)
    if modules.get("__main__") is not main_module:
        modules["__main__"] = main_module
    names = vars(main_module)
    if names.get("__builtins__") is not builtins:
        names["__builtins__"] = builtins
    if "__name__" not in names:
        names["__name__"] = "__main__"
    # Else a warning is shown once per line number, whatever stands there by now.
    names.pop("__warningregistry__", None)


def mask():
    """Holds back all signals but interrupts, from this thread and until `unmask`."""
    pthread_sigmask(SIG_BLOCK, MASKED)


def unmask():
    """Puts back the signal mask that the next execution begins with."""
    pthread_sigmask(SIG_SETMASK, State.signal_mask)


def is_foreign(error):
    """Whether an exception was raised in code that is not the runner's."""
    trace = traceback_of(error)
    while trace.tb_next is not None:
        trace = trace.tb_next
    return not is_ours(trace.tb_frame.f_code)


