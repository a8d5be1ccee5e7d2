"""What the system keeps for this process, and no image of its memory has: noted before the memory
is saved, and set again in the process that it is loaded into.

`obstacles` says what of it can be in no image.
"""

import descriptors
import reseed
from guard import Any, _signal, load, modules, posix

TIMERS = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
# Of each list in a reason.
NAMES_MAX = 5


def obstacles(own):
    """Why this process can not be saved. `own` are descriptors that belong to nobody's code."""
    found = []
    tasks = posix.listdir("/proc/self/task")
    if len(tasks) > 1:
        main = str(posix.getpid())
        names = listed(read("/proc/self/task/%s/comm" % task) for task in tasks if task != main)
        found.append(("threads", "it has other threads (%s): end them, or join them" % names))
    children = read("/proc/self/task/%d/children" % posix.getpid()).split()
    if children:
        names = listed(read("/proc/%s/comm" % child) for child in children)
        found.append(
            ("processes", "it has child processes (%s): end them, and wait for them" % names)
        )
    if read("/proc/self/timers"):
        found.append(("timers", "it has timers of timer_create(2): delete them"))
    try:
        posix.getcwd()
    except OSError:
        found.append(("files", "its working directory is deleted"))
    return found + [("descriptors", why) for why in descriptors.obstacles(own)]


def note(own):
    """What `restore` needs."""
    resource: Any = load("resource")
    limits = {}
    for name in sorted(vars(resource)):
        if name.startswith("RLIMIT_"):
            number = getattr(resource, name)
            limits[number] = resource.getrlimit(number)
    umask = posix.umask(0o077)
    posix.umask(umask)
    faulthandler = modules.get("faulthandler")
    return {
        "handlers": {number: _signal.getsignal(number) for number in _signal.valid_signals()},
        "mask": _signal.pthread_sigmask(_signal.SIG_BLOCK, ()),
        "timers": {name: _signal.getitimer(getattr(_signal, name)) for name in TIMERS},
        "directory": posix.getcwd(),
        "umask": umask,
        "limits": limits,
        "affinity": posix.sched_getaffinity(0),
        "faulthandler": faulthandler is not None and faulthandler.is_enabled(),
        "descriptors": descriptors.note(own),
    }


def restore(state):
    """Sets it again. Returns what could not be."""
    lost = descriptors.restore(state["descriptors"])
    try:
        posix.chdir(state["directory"])
    except OSError as error:
        lost.append("the working directory %s: %s" % (state["directory"], error.strerror))
    posix.umask(state["umask"])
    restore_limits(state["limits"])
    try:
        posix.sched_setaffinity(0, state["affinity"])
    except OSError:
        pass  # Other processors than there were.
    for number, handler in state["handlers"].items():
        # A handler of a library's own is not Python's to know; the system gives some to nobody.
        if handler is not None and number not in (_signal.SIGKILL, _signal.SIGSTOP):
            try:
                _signal.signal(number, handler)
            except (OSError, ValueError):
                pass
    if state["faulthandler"]:
        faulthandler = modules["faulthandler"]
        faulthandler.disable()
        faulthandler.enable()
    draw_anew()
    # Last: from here on they run.
    for name, (seconds, interval) in state["timers"].items():
        if seconds:
            _signal.setitimer(getattr(_signal, name), seconds, interval)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, state["mask"])
    return lost


def restore_limits(limits):
    """Sets limits of resources again as far as they are not above those of this process."""
    resource: Any = load("resource")

    def least(one, other):
        return min((one, other), key=lambda limit: float("inf") if limit == -1 else limit)

    for number, (soft, hard) in limits.items():
        if number == resource.RLIMIT_CPU:
            continue  # The agent sets it for each execution.
        now = resource.getrlimit(number)
        most = least(hard, now[1])
        wanted = (least(soft, most), most)
        if wanted != now:
            resource.setrlimit(number, wanted)


def draw_anew():
    """Makes this process's random numbers and names its own, as after a fork."""
    reseed.reseed()
    random = modules.get("random")
    tempfile: Any = modules.get("tempfile")
    if random is not None:
        random.seed()
    if tempfile is not None:
        tempfile._name_sequence = None
    threading = modules.get("threading")
    if threading is not None:
        threading.main_thread()._set_native_id()


def read(path):
    """A file of /proc without its last line's end; empty if it is gone."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return posix.read(descriptor, 1 << 16).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        posix.close(descriptor)


def listed(names):
    names = sorted(names)
    more = ", …" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
