"""Reinitializes a kernel that was forked from a template, before it starts.

`os.fork` has done Python's part (`random` is seeded anew; threads and locks are right), and
confining the process has done the system's part. This part replaces the state that libraries took
from the template's environment and process.

The seed of `hash(str)` can not be changed: all kernels of a template share it
(docs/sandbox-layers.md, "Templates").
"""

import ctypes
import os
import sys
from _signal import SIG_IGN, SIGPIPE, SIGXFSZ, signal
from time import tzset

from guard import Any
from reseed import reseed

modules: Any = sys.modules
environ: Any = os.environ

# environ(7). Made once, in the template: making it writes to a hundred pages, which a kernel would
# have to copy first.
ENVIRON = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")


def reinitialize():
    """Replaces the state that this process inherited from the template."""
    read_environment()
    # Python does so at start; confining the process reset every action.
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
    clear_cached_directories()
    reseed()
    threading = modules.get("threading")
    if threading is not None:
        # Before 3.13 it stays the template's.
        threading.main_thread()._set_native_id()


def read_environment():
    """Reads the environment that the agent's library has set: environ(7)."""
    found = {}
    for entry in iter_until_null(ENVIRON):
        name, _, value = entry.partition(b"=")
        found[name] = value
    # Python sets it at start if nothing else says which encoding to use (PEP 538).
    coerced = environ._data.get(b"LC_CTYPE")
    if coerced is not None and not {b"LC_ALL", b"LC_CTYPE"} & found.keys():
        found[b"LC_CTYPE"] = coerced
        os.putenv(b"LC_CTYPE", coerced)
    for environment in (environ._data, vars(modules["posix"])["environ"]):
        environment.clear()
        environment.update(found)
    tzset()


def iter_until_null(pointers):
    """The strings of a NULL-terminated array."""
    index = 0
    while pointers[index] is not None:
        yield pointers[index]
        index += 1


def clear_cached_directories():
    """Makes libraries forget directories of the template."""
    tempfile = modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = tempfile._name_sequence = None
    process = modules.get("multiprocessing.process")
    if process is not None:
        # Where a spawned process looks for modules.
        process.ORIGINAL_DIR = os.getcwd()
    matplotlib = modules.get("matplotlib")
    for name in ("get_configdir", "get_cachedir"):
        clear_cached_call(getattr(matplotlib, name, None))


def clear_cached_call(function):
    """Makes a function of matplotlib's that caches its first result compute it again."""
    code = getattr(function, "__code__", None)
    cells = dict(
        zip(getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or ())
    )
    if "called" in cells:
        cells["called"].cell_contents = False
