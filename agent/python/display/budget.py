"""A time budget for rendering: what shows a value must not take the execution with it.

A repr or `_repr_html_` that takes too long gets `RenderingTimeout` raised in it, by SIGALRM;
and again after a while, should it catch that. What neither returns nor lets Python run (a loop in
C) is ended with the execution, when that has had its time.

Tenant code may be using SIGALRM and its timer itself: its handler and the rest of its time are
put back, and an alarm of its own that falls into a rendering is late by as much. In a thread
other than the main one, where no signal handler runs, there is no budget.

Like an interrupt, `RenderingTimeout` is never raised in the runner: see guard.py.
"""

import guard
from guard import _signal, get_ident, monotonic, signal

ITIMER_REAL, SIGALRM, setitimer = _signal.ITIMER_REAL, _signal.SIGALRM, _signal.setitimer
SECONDS = 5
AGAIN_SECONDS = 0.5


class RenderingTimeout(BaseException):
    pass


class State:
    """What changes while the kernel lives."""

    counting = False
    late = False


def on_alarm(number, frame):
    """The handler of SIGALRM during a rendering."""
    if State.counting:
        State.late = True
        if guard.raises_here(frame):
            raise RenderingTimeout("rendering took too long")


def call(function, *args):
    """Calls tenant code, as `guard.foreign` does, while there is time."""
    if State.late and get_ident() == guard.State.thread:
        raise RenderingTimeout
    return guard.foreign(function, *args)


def limited(function, *args, seconds=None):
    """Calls a function of ours, which has so much time for all that it runs by `call`."""
    if State.counting or get_ident() != guard.State.thread:
        return function(*args)
    theirs = _signal.getsignal(SIGALRM)
    if theirs is None:
        # A handler that is not Python's could not be put back.
        return function(*args)
    try:
        # Before our handler is there, or their alarm could be taken for ours.
        left, interval = setitimer(ITIMER_REAL, 0)
    except OSError:
        return function(*args)
    began = monotonic()
    try:
        signal(SIGALRM, on_alarm)
        State.late, State.counting = False, True
        setitimer(ITIMER_REAL, seconds or SECONDS, AGAIN_SECONDS)
        return function(*args)
    finally:
        setitimer(ITIMER_REAL, 0)
        State.late = State.counting = False
        signal(SIGALRM, theirs)
        if left:
            setitimer(ITIMER_REAL, max(left - (monotonic() - began), 1e-6), interval)
