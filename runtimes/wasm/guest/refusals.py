"""What this runtime does not have raises the audit events of CPython's, and is refused.

Its functions count as a library's, and not as the import system's: events can be denied in them.
"""

import os
import sys

ELSEWHERE = "%s in runtime wasm: use an environment with runtime cpython"

# Function of `os` -> its event, and how many arguments that has; None for those left out.
PROCESSES = {
    "fork": ("os.fork", 0),
    "forkpty": ("os.forkpty", 0),
    "system": ("os.system", 1),
    "posix_spawn": ("os.posix_spawn", 3),
    "posix_spawnp": ("os.posix_spawn", 3),
    "execv": ("os.exec", 3),
    "execve": ("os.exec", 3),
}


def refuse(error, what, event, count):
    def refused(*args, **_options):
        sys.audit(event, *args[:count], *(None,) * (count - len(args)))
        raise error(ELSEWHERE % what)

    return refused


def refuse_threads():
    import _thread

    what = RuntimeError, "threads are not available"
    start = refuse(*what, "_thread.start_new_thread", 3)
    _thread.start_new_thread = _thread.start_new = start
    _thread.start_joinable_thread = refuse(*what, "_thread.start_joinable_thread", 3)


def refuse_processes():
    import socket
    import subprocess

    # After asyncio and random, which take a fork for a sign of more.
    for name, event in PROCESSES.items():
        setattr(os, name, refuse(OSError, "os.%s is not available" % name, *event))

    subprocess.Popen.__init__ = start_process
    subprocess.Popen.__del__ = lambda self: None

    class Refused(socket.socket):
        def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
            sys.audit("socket.__new__", self, family, type, proto)
            raise OSError(ELSEWHERE % "sockets are not available")

        def __del__(self):
            pass

    Refused.__name__ = Refused.__qualname__ = "socket"
    Refused.__module__ = "socket"
    socket.socket = socket.SocketType = Refused
    refused = OSError, "sockets are not available", "socket.getaddrinfo", 5
    socket.getaddrinfo = refuse(*refused)


def start_process(self, args, bufsize=-1, executable=None, *_args, cwd=None, env=None, **_options):
    sys.audit("subprocess.Popen", executable, args, cwd, env)
    raise OSError(ELSEWHERE % "subprocesses are not available")
