"""What a kernel that was forked from a template puts right before it begins.

Python has done its own part in `os.fork` (`random` is seeded anew by it, threads and locks are
right), the system its part when the process was confined. Here is the rest: what libraries took
from the template's environment and process, and would now have wrong.

Not put right, as it can not be: the seed of `hash(str)`, which all kernels of a template share
with it (docs/sandbox-layers.md, "Templates").
"""

import ctypes
import os
import sys
from _signal import SIG_IGN, SIGPIPE, SIGXFSZ, signal
from time import tzset

modules = sys.modules

# environ(7), wherever it is when this is read. Made once, in the template: to make it is to write to
# a hundred pages, which a kernel would have to copy first.
ENVIRON = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")

# Of the state of a Mersenne Twister: 624 words, none of which is used yet.
MT_WORDS, MT_BYTES = 624, 2496


def wake():
    """Makes this process one of its own."""
    read_environment()
    # As Python starts; every action was reset as the process was confined.
    signal(SIGPIPE, SIG_IGN)
    signal(SIGXFSZ, SIG_IGN)
    forget_directories()
    reseed()
    threading = modules.get("threading")
    if threading is not None:
        # Before 3.13 it remains the template's.
        threading.main_thread()._set_native_id()


def read_environment():
    """Reads what the library has made the environment: environ(7)."""
    found = {}
    for entry in iter_until_null(ENVIRON):
        name, _, value = entry.partition(b"=")
        found[name] = value
    # Python sets it itself as it starts, where nothing else says which encoding to use (PEP 538).
    coerced = os.environ._data.get(b"LC_CTYPE")
    if coerced is not None and not {b"LC_ALL", b"LC_CTYPE"} & found.keys():
        found[b"LC_CTYPE"] = coerced
        os.putenv(b"LC_CTYPE", coerced)
    for environment in (os.environ._data, vars(modules["posix"])["environ"]):
        environment.clear()
        environment.update(found)
    tzset()


def iter_until_null(pointers):
    """The strings of a NULL-terminated array."""
    index = 0
    while pointers[index] is not None:
        yield pointers[index]
        index += 1


def forget_directories():
    """Where libraries remember directories that are the template's."""
    tempfile = modules.get("tempfile")
    if tempfile is not None:
        tempfile.tempdir = tempfile._name_sequence = None
    matplotlib = modules.get("matplotlib")
    for name in ("get_configdir", "get_cachedir"):
        forget_call(getattr(matplotlib, name, None))


def forget_call(function):
    """Has a function of matplotlib's that keeps its first answer find it again."""
    code = getattr(function, "__code__", None)
    cells = dict(zip(getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or ()))
    if "called" in cells:
        cells["called"].cell_contents = False


def reseed():
    """Gives random generators that every process has one of a seed of this one's."""
    ssl = modules.get("_ssl")
    if ssl is not None:
        # OpenSSL takes a fork for one if the pid is another, which two pid namespaces may not show.
        ssl.RAND_add(os.urandom(48), 48.0)
    numpy, random = modules.get("numpy"), modules.get("numpy.random")
    if numpy is not None and random is not None:
        # The whole state, which `seed` would take three times as long to fill from a seed.
        words = numpy.frombuffer(os.urandom(MT_BYTES), numpy.uint32, MT_WORDS)
        try:
            random.set_state(("MT19937", words, MT_WORDS))
        except ValueError:
            random.seed()  # It is another generator's by now: numpy.random.set_bit_generator.
    uuid = modules.get("uuid")
    if uuid is not None:
        # libuuid keeps what makes a process's time-based ones its own, its clock sequence, where
        # nobody can reach it: without it Python draws another for each. The node is a random one,
        # as it is in a session that has no network card (RFC 9562, 6.10).
        uuid._generate_time_safe = None
        uuid._node = int.from_bytes(os.urandom(6), "big") | 1 << 40
