"""Waiting, by asyncio, select and poll: for time and signals only, as there are no sockets.

What a guest can open is ready or never will be. WASI's own way to wait lets no signal handler run,
so descriptors are asked about without waiting, before the time passes and after it.
"""

import select
import time

select_now = select.select
poll_now = select.poll


def pass_time(seconds):
    if seconds is not None:
        time.sleep(seconds)
        return
    while True:
        time.sleep(3600)


def select_of_descriptors(rlist, wlist, xlist, timeout=None, /):
    """As `select.select`."""
    if timeout is not None and timeout < 0:
        raise ValueError("timeout must be non-negative")
    lists = list(rlist), list(wlist), list(xlist)
    found = select_now(*lists, 0) if any(lists) else ([], [], [])
    if timeout == 0 or any(found):
        return found
    pass_time(timeout)
    return select_now(*lists, 0) if any(lists) else found


class Poll:
    """As `select.poll()` gives it."""

    def __init__(self):
        self._registered = poll_now()
        for name in ("register", "modify", "unregister"):
            setattr(self, name, getattr(self._registered, name))

    def poll(self, timeout=None, /):
        found = self._registered.poll(0)
        if timeout == 0 or found:
            return found
        pass_time(None if timeout is None or timeout < 0 else timeout / 1000)
        return self._registered.poll(0)


class Selector:
    """Waits for nothing but time. asyncio registers nothing: there is nothing to register."""

    def select(self, timeout=None):
        # Without a timeout only a signal handler can have something to do.
        time.sleep(1 if timeout is None else max(timeout, 0))
        return []

    def get_map(self):
        return {}

    def close(self):
        pass


def start():
    import asyncio
    import asyncio.unix_events as events
    import selectors

    select.select = select_of_descriptors
    # A class keeps a function as its method.
    selectors.SelectSelector._select = staticmethod(select_of_descriptors)
    select.poll = selectors.PollSelector._selector_cls = Poll

    class EventLoop(asyncio.SelectorEventLoop):
        def __init__(self):
            super().__init__(Selector())

        def _make_self_pipe(self):
            pass

        def _close_self_pipe(self):
            pass

        def _write_to_self(self):
            pass

    events._DefaultEventLoopPolicy._loop_factory = EventLoop
    asyncio.EventLoop = asyncio.SelectorEventLoop = events.EventLoop = EventLoop
