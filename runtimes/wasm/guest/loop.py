"""An event loop of asyncio that waits for time and signals only: there are no sockets."""

import time


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
