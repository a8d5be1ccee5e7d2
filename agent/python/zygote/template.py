"""A template: imports the modules of an environment, and then forks kernels.

`vivarium-agent template` executes it as it would a kernel. Its arguments are the path of the
agent's library, whether kernels can be saved, the warm-up code, and the modules to import.
Descriptor 3 is the supervisor's socket, and 1 and 2 are its log.

The loop that waits for requests to fork is the library's (agent/src/zygote/server.rs). It
returns for each of them, since Python must do the fork itself: `os.fork` leaves Python's and the
libraries' state right in the child (PyOS_AfterFork_Child, os.register_at_fork, pthread_atfork(3)).
Fork handlers of libraries run here, outside of any session. Then the child joins the session,
continues there in a clone of itself, and becomes the kernel.

It must never run user code. It must be single-threaded when it begins to serve: a fork keeps the
locks of other threads, but not the threads.
"""

import ctypes
import os
import sys

import after_fork
import copy_on_write
import import_hooks
import kernel
import kernel_image
import rehearsal
from classes import type_name

# What `vivarium_template_serve` returns when the process is to be forked: agent/src/ffi.rs.
TO_FORK = 1

# The parts that nearly every session loads sooner or later.
PARTS = ("render", "show", "budget", "lookup")

# So many times code is executed until most of it is specialized.
REHEARSALS = 16

# The descriptors that may be open: standard streams, the supervisor's socket, and, if there is one,
# the namespace of the mount that the interpreter was executed from.
EXPECTED = {"0", "1", "2", "3"}
MOUNTS = "6"

# The reason goes into a log line.
REASON_MAX_CHARS = 2000

# What an operator can do about leftovers.
ADVICE = "make it in the session's code instead, or set this environment's template to off"


class TemplateError(Exception):
    """Why this environment gets no template."""


class Leftovers:
    """Threads and writable shared memory, each with the step after which it was first seen."""

    def __init__(self):
        self.first_seen = {}

    def note(self, step):
        """Looks for them after `step`. Returns those there are now."""
        now = {**threads(), **shared_memory()}
        for key in now:
            self.first_seen.setdefault(key, step)
        return now

    def check(self):
        """Raises TemplateError if there are any."""
        for (kind, identity), name in self.note("the imports").items():
            step = self.first_seen[kind, identity]
            raise TemplateError("%s left %s: %s; %s" % (step, kind, name, ADVICE))


def main():
    """Warms up, then serves. Never returns: a template and a kernel both end by `_exit`."""
    path, images, warmup, *modules = sys.argv[1:]
    library = ctypes.PyDLL(path)
    os.close(5)
    if os.path.exists("/proc/self/fd/" + MOUNTS):
        EXPECTED.add(MOUNTS)
    try:
        check(warm_up(warmup, modules))
    except BaseException as error:
        reason = error if type(error) is TemplateError else "%s: %s" % (type(error).__name__, error)
        unfit(library, str(reason))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    copy_on_write.settle(library)
    if images:
        failed = library.vivarium_image_share_memory()
        if failed:
            unfit(library, "its memory can not be put into a file: %s" % os.strerror(failed))
    while library.vivarium_template_serve() == TO_FORK:
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or 1)
        if pid == 0:
            break
        library.vivarium_template_forked(pid)
    else:
        os._exit(0)
    if library.vivarium_template_begin_kernel():
        try:
            rehearsal.rehearse()
            after_fork.reinitialize()
        except BaseException:
            os._exit(1)  # The server does without a spare that has ended.
    library.vivarium_template_become_kernel()
    kernel_image.state.library = library
    after_fork.reinitialize()
    kernel.main()


def unfit(library, reason):
    """Says why there is no template, and ends."""
    reason = reason[:REASON_MAX_CHARS].replace("\0", "")
    library.vivarium_template_unfit(reason.encode("utf-8", "backslashreplace"))
    os._exit(1)


def warm_up(warmup, modules):
    """Imports the environment's modules and runs its warm-up code. Returns their leftovers."""
    leftovers = Leftovers()
    for name in PARTS:
        __import__(name)
    # See kernel.serve: no kernel needs to do this any more.
    compile("0", "", "eval", kernel.ONLY_AST, True)
    kernel.state.has_ast_types = True
    # Before the modules are imported, so that their hooks run once, here.
    import_hooks.start()
    for name in modules:
        try:
            __import__(name)
        except BaseException as error:
            kind = type_name(type(error))
            raise TemplateError("preimport %r: %s: %s" % (name, kind, error)) from error
        leftovers.note("preimport %r" % name)
    try:
        exec(compile(warmup, "<warmup>", "exec"), {"__name__": "__warmup__"})
    except BaseException as error:
        kind = type_name(type(error))
        raise TemplateError("warmup: %s: %s" % (kind, error)) from error
    leftovers.note("warmup")
    # What an execution makes once is then shared, and its code is specialized (PEP 659).
    for _ in range(REHEARSALS):
        rehearsal.rehearse()
    leftovers.note("a rehearsal")
    return leftovers


def check(leftovers):
    """Raises TemplateError if kernels must not be forked from this process."""
    leftovers.check()
    left = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            if fd not in EXPECTED:
                left.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass  # The descriptor that listed the directory.
    if left:
        raise TemplateError("the imports left open files, which kernels must not share: %s" % left)
    # Forks as for each kernel. A thread that a library starts in the child would not be confined
    # with the kernel.
    pid = os.fork()
    if pid == 0:
        os._exit(1 if threads() else 0)
    status = os.waitpid(pid, 0)[1]
    if status != 0:
        raise TemplateError(
            "a fork of it does not come back with one thread (wait status %d)" % status
        )
    leftovers.note("a handler of os.register_at_fork")
    leftovers.check()


def threads():
    """The names of all threads but the first (proc_pid_comm(5)): a fork would take their locks, but
    not them."""
    found = {}
    for thread in os.listdir("/proc/self/task"):
        if thread != str(os.getpid()):
            try:
                with open("/proc/self/task/%s/comm" % thread) as name:
                    found["a thread, which a fork would lose", thread] = name.read().strip()
            except FileNotFoundError:
                pass  # The thread has ended.
    return found


def shared_memory():
    """Mappings that kernels of different tenants would share and could write to, or make so by
    mprotect(2): proc_pid_smaps(5), VmFlags."""
    found, address, name = {}, "", ""
    with open("/proc/self/smaps") as lines:
        for line in lines:
            fields = line.split(None, 5)
            if fields[0] == "VmFlags:":
                flags = line.split()
                if "mw" in flags and ("sh" in flags or "ms" in flags) and "dc" not in flags:
                    found["memory that sessions would share and could write to", address] = name
            elif not fields[0].endswith(":"):
                address, name = fields[0], fields[5].strip() if len(fields) > 5 else "no name"
    return found
