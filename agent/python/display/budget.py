"""A time budget for rendering: a value whose rendering hangs must not cost its execution.

SIGALRM raises `RenderingTimeout` in a repr or `_repr_html_` that takes too long, and raises it
again after a while, in case the code caught it. Code that neither returns nor lets Python run (a
loop in C) ends with its execution, at the execution's own limit.

User code may use SIGALRM and its timer too: its handler and remaining time are restored
afterwards, and an alarm that is due during a rendering rings after it. Threads other
than the main one run no signal handlers, so they have no budget.

Like an interrupt, `RenderingTimeout` is never raised in kernel code: see guard.py.
"""

import guard
from guard import _signal, get_ident, monotonic, signal

ITIMER_REAL, SIGALRM, setitimer = _signal.ITIMER_REAL, _signal.SIGALRM, _signal.setitimer
SECONDS = 5
AGAIN_SECONDS = 0.5


class RenderingTimeout(BaseException):
    pass


class State:
    active = False
    expired = False


state = State()


def on_alarm(number, frame):
    """The handler of SIGALRM during a rendering."""
    if state.active:
        state.expired = True
        if guard.may_raise_in(frame):
            raise RenderingTimeout("rendering took too long")


def call_timed(function, *args):
    """Calls user code by `guard.call_user`, unless the time is up."""
    if state.expired and get_ident() == guard.state.thread:
        raise RenderingTimeout
    return guard.call_user(function, *args)


def with_time_limit(function, *args, seconds=None):
    """Calls a kernel function, and limits the time of all that it calls by `call_timed`."""
    if state.active or get_ident() != guard.state.thread:
        return function(*args)
    users_handler = _signal.getsignal(SIGALRM)
    if users_handler is None:
        # A handler that was not installed from Python can not be put back.
        return function(*args)
    try:
        # Before our handler is installed: it could take the user's alarm for its own.
        left, interval = setitimer(ITIMER_REAL, 0)
    except OSError:
        return function(*args)
    began = monotonic()
    try:
        signal(SIGALRM, on_alarm)
        state.expired, state.active = False, True
        setitimer(ITIMER_REAL, seconds or SECONDS, AGAIN_SECONDS)
        return function(*args)
    finally:
        setitimer(ITIMER_REAL, 0)
        state.expired = state.active = False
        signal(SIGALRM, users_handler)
        if left:
            setitimer(ITIMER_REAL, max(left - (monotonic() - began), 1e-6), interval)
