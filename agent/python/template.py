"""A template: imports what an environment names, and forks kernels from there on.

It is executed by `vivarium-agent template` as a kernel is, with what it is to do as arguments:
the path of the agent's library, the warm-up code, and the modules to import. Descriptor 3 is the
supervisor's socket, and 1 and 2 are its log.

The loop that waits for birth requests is the library's (agent/src/template/nursery.rs). It comes
back for each birth to have done what must be Python's: `os.fork`, so that Python's and the
libraries' own state is right in the child (PyOS_AfterFork_Child, os.register_at_fork,
pthread_atfork(3)). What libraries do then they do here, outside of any session. Then the child joins
the session, goes on as a process of its own there, and is the kernel.

It must never run tenant code, and must be single-threaded when it begins to serve: of other
threads a fork takes nothing but the locks that they hold.
"""

import ctypes
import gc
import os
import sys

import guard
import imports
import kernel
import report
import waking

# What `vivarium_template_serve` gives when the process is to be forked: agent/src/capi.rs.
TO_FORK = 1

# Parts that nearly every session comes to need.
PARTS = ("render", "show", "budget", "names")

# What is open when nothing was left open: standard streams, and the supervisor's socket.
EXPECTED = {"0", "1", "2", "3"}

# The reason goes into a log line.
REASON_MAX_CHARS = 2000


class Unfit(Exception):
    """Why there is no template for this environment."""


def main():
    """Warms up, then serves. Returns in no process but those that become kernels, and not there
    either: a kernel ends by `_exit`."""
    path, warmup, *modules = sys.argv[1:]
    library = ctypes.PyDLL(path)
    os.close(5)
    try:
        warm(warmup, modules)
        check()
    except BaseException as error:
        reason = "%s: %s" % (type(error).__name__, error) if type(error) is not Unfit else error
        reason = str(reason)[:REASON_MAX_CHARS].replace("\0", "")
        library.vivarium_template_unfit(reason.encode("utf-8", "backslashreplace"))
        os._exit(1)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # What lives until here stays, and the collector need not look at it, which would copy it.
    gc.collect()
    gc.freeze()
    while library.vivarium_template_serve() == TO_FORK:
        try:
            pid = os.fork()
        except OSError as error:
            pid = -error.errno
        if pid == 0:
            break
        library.vivarium_template_forked(pid)
    else:
        os._exit(0)
    library.vivarium_template_become_kernel()
    waking.wake()
    kernel.main()


def warm(warmup, modules):
    """Imports and runs what the environment names."""
    for name in PARTS:
        __import__(name)
    # See kernel.serve: its first execution need not do this any more.
    compile("0", "", "eval", kernel.ONLY_AST, True)
    kernel.State.has_ast_types = True
    # Before the modules are: what it changes in them is then changed once, here.
    imports.start()
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            kind = report.type_name(type(error))
            raise Unfit("preimport %r: %s: %s" % (name, kind, error)) from error
    try:
        exec(compile(warmup, "<warmup>", "exec"), {"__name__": "__warmup__"})
    except BaseException as error:
        kind = report.type_name(type(error))
        raise Unfit("warmup: %s: %s" % (kind, error)) from error


def check():
    """Raises Unfit if this process can not be forked from."""
    threads = count_threads()
    if threads > 1:
        raise Unfit("the imports left %d threads, which a fork would lose" % (threads - 1))
    left = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            if fd not in EXPECTED:
                left.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass  # What the directory itself was listed by.
    if left:
        raise Unfit("the imports left open files, which kernels must not share: %s" % left)
    # As each kernel will be. A thread that a library starts then would not be confined with it.
    pid = os.fork()
    if pid == 0:
        os._exit(min(count_threads(), 100))
    status = os.waitpid(pid, 0)[1]
    if status != 1 << 8:
        raise Unfit("a fork of it does not come back with one thread (wait status %d)" % status)


def count_threads():
    return len(os.listdir("/proc/self/task"))
