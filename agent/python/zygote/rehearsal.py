"""Runs what the first execution of every session runs, in a process that has no session yet.

A kernel copies each page that it writes to for the first time. One that is forked before there is a
session copies most of them meanwhile, by doing what it will do: the kernel's own main loop serves a
request whose answer goes nowhere. Then what the execution left is taken back. A template does so
too, for what need not be made by each kernel.
"""

import builtins
import posix
import sys
from _signal import SIG_BLOCK, SIG_SETMASK, SIGINT, getsignal, pthread_sigmask, signal

import guard
import interactive
import kernel
import source_cache
import streams
import wire

SOURCE = "1+1"


def rehearse():
    """Serves an execution. Nothing of it is there when it returns."""
    names, read, write = dict(vars(guard.main_module)), wire.readv, wire.write
    hooks = guard.state.post_execute
    if has_open_figures():
        # They would be shown, and it would be waited for until somebody has seen them.
        guard.state.post_execute = []
    own_builtins = set(vars(builtins))
    stdin, first_stdin = sys.stdin, sys.__stdin__
    on_sigint, mask = getsignal(SIGINT), pthread_sigmask(SIG_BLOCK, ())
    guard.state.pid = posix.getpid()
    vars(wire.state).update(inbox=wire.chunk, read_counts=[], requests=[])
    streams.start()
    interactive.start()
    try:
        wire.readv, wire.write = read_request, discard
        kernel.serve()
    finally:
        wire.readv, wire.write = read, write
        guard.state.post_execute = hooks
    vars(guard.main_module).clear()
    vars(guard.main_module).update(names)
    source_cache.update_linecache((), list(source_cache.sources))
    interactive.In[:], interactive.last[:] = [""], [None, None, None]
    for kept in (interactive.Out, interactive.large, source_cache.kept, source_cache.sources):
        kept.clear()
    source_cache.state.chars, source_cache.state.name = 0, ""
    kernel.state.execution = kernel.Execution()
    vars(wire.state).clear()
    streams.originals.clear()
    sys.stdin, sys.__stdin__ = stdin, first_stdin  # type: ignore[misc]
    signal(SIGINT, on_sigint)
    pthread_sigmask(SIG_SETMASK, mask)
    for name in vars(builtins).keys() - own_builtins:
        delattr(builtins, name)


def has_open_figures():
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return helpers is not None and bool(helpers.Gcf.figs)


def read_request(fd, buffers):
    """In place of readv(2): an EXECUTE frame, see agent/src/kernel/wire.rs."""
    unlimited = wire.number(0xFFFFFFFF)
    text = SOURCE.encode()
    payload = wire.number(1, 8) + unlimited * 3 + bytes(4 * 5) + wire.number(len(text)) + text
    frame = wire.number(len(payload) + 1) + bytes([wire.EXECUTE]) + payload
    buffers[0][: len(frame)] = frame
    return len(frame)


def discard(fd, data):
    """In place of write(2)."""
    return len(data)
