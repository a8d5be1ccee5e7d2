"""What holds in the guest, tried from inside: the answer of `vivarium-wasm inspect`.

Each attempt succeeds where nothing holds: test_wasm.py makes them in an interpreter.
"""

import _socket
import _thread
import os
import posix
import sys

import stand_ins

# Of the interpreter: what tenant code finds is a refusal of refusals.py's.
start_new_thread = _thread.start_new_thread


def fails(error, function, *args):
    try:
        function(*args)
    except error:
        return True
    except BaseException:
        return False
    return False


def read(path):
    with open(path) as opened:
        return opened.read()


def bind(kind):
    opened = _socket.socket(_socket.AF_INET, kind)
    try:
        opened.bind(("127.0.0.1", 0))
    finally:
        opened.close()


def fork():
    child = posix.fork()
    if child == 0:
        posix._exit(0)
    posix.waitpid(child, 0)


def spawn():
    posix.waitpid(posix.posix_spawn("/bin/true", ["true"], {}), 0)


def attempts(directory):
    """What is not to work, by what is claimed of it, with the error that says so.

    Of the files beside `directory`, which is all that the guest sees, each is there.
    """
    outside = os.path.dirname(directory) + "/outside"
    files = [outside, directory + "/../outside", directory + "/link", "/etc/passwd"]
    ways = [(read, path) for path in files]
    ways += [(os.stat, path) for path in files]
    ways += [(os.listdir, path) for path in ("/", directory + "/..")]
    return {
        "no file but those in preopened directories": (OSError, ways),
        "no sockets": (OSError, [(bind, _socket.SOCK_STREAM), (bind, _socket.SOCK_DGRAM)]),
        "linear memory bounded": (MemoryError, [(bytearray, 1 << 30)]),
        # The interpreter has no such functions here.
        "no processes": ((AttributeError, OSError), [(fork,), (spawn,)]),
        "no threads": (RuntimeError, [(start_new_thread, int, ())]),
    }


def inspect(directory):
    tried = {
        name: all(fails(errors, *way) for way in ways)
        for name, (errors, ways) in attempts(directory).items()
    }
    tried["files in preopened directories"] = not fails(BaseException, read, directory + "/file")
    try:
        runtime_at = stand_ins.attach()
    except OSError:
        runtime_at = None
    tried["signals reach the interpreter"] = runtime_at is not None
    return {
        "runtime_at": runtime_at,
        "python": "%d.%d.%d" % sys.version_info[:3],
        "enforced": "; ".join(name for name, holds in tried.items() if holds),
        "missing": "; ".join(name for name, holds in tried.items() if not holds),
    }
