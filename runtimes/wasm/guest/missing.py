"""What this runtime does not have is refused by its name, with what has it."""

import sys

ELSEWHERE = "%s in runtime wasm: use an environment with runtime cpython"

# Modules in C that WebAssembly has no place for, and libraries that tenant code often asks for.
MODULES = {
    "_ctypes",
    "_multiprocessing",
    "_posixsubprocess",
    "_ssl",
    "fcntl",
    "mmap",
    "pwd",
    "grp",
    "resource",
    "termios",
    "syslog",
    "_curses",
    "readline",
    "_tkinter",
    "ctypes",
    "multiprocessing",
    "ssl",
    "curses",
    "tkinter",
    "numpy",
    "pandas",
    "matplotlib",
    "scipy",
    "sklearn",
    "PIL",
    "seaborn",
    "plotly",
    "altair",
    "networkx",
    "sympy",
    "torch",
    "tensorflow",
    "cv2",
    "requests",
    "httpx",
    "aiohttp",
    "openpyxl",
    "pyarrow",
    "polars",
    "statsmodels",
    "bs4",
    "lxml",
    "yaml",
    "pydantic",
}


class Finder:
    """The last finder."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(ELSEWHERE % (name + " is not available"), name=name)


def refuse(error, what):
    def refused(*_args, **_options):
        raise error(ELSEWHERE % what)

    return refused


def start():
    import _thread

    sys.meta_path.append(Finder)
    threads = refuse(RuntimeError, "threads are not available")
    _thread.start_new_thread = _thread.start_new = threads
    _thread.start_joinable_thread = threads


def refuse_processes():
    import os
    import socket
    import subprocess

    # After asyncio and random, which take a fork for a sign of more.
    for name in ("fork", "forkpty", "system", "posix_spawn", "posix_spawnp", "execv", "execve"):
        setattr(os, name, refuse(OSError, "os.%s is not available" % name))

    subprocess.Popen.__init__ = refuse(OSError, "subprocesses are not available")
    subprocess.Popen.__del__ = lambda self: None

    class Refused(socket.socket):
        def __init__(self, *_args, **_options):
            raise OSError(ELSEWHERE % "sockets are not available")

        def __del__(self):
            pass

    Refused.__name__ = Refused.__qualname__ = "socket"
    Refused.__module__ = "socket"
    socket.socket = socket.SocketType = Refused
    socket.getaddrinfo = refuse(OSError, "sockets are not available")
