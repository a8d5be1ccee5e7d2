"""A command that runs in the background, for asyncio."""

from __future__ import annotations

from typing import Optional, Union

from .._core.process import ProcessCalls, Signal
from ..models import Outcome
from .stream import AsyncEventStream


class AsyncProcess:
    """A command in the background. Get one from `AsyncSession.start` or `AsyncSession.process`.

    It does not end with this object, and not with this program: see `AsyncSession.start`.
    """

    def __init__(self, calls: ProcessCalls) -> None:
        self._calls = calls

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def id(self) -> str:
        """The execution's id, with which any client of the tenant finds it."""
        return self._calls.id

    async def write(self, data: Union[str, bytes]) -> int:
        """Writes to standard input. Returns the number of bytes, once the pipe has taken them.

        Raises:
            Conflict: The command has ended, or was not started with `stdin_open`.
            QuotaExceeded: It has read nothing for 30 s; `detail` says how much was written.
        """
        return await self._calls.write(data)

    async def close_stdin(self) -> None:
        """Ends standard input. Does nothing if the command has ended."""
        await self._calls.close_stdin()

    async def send_signal(self, signal: Signal) -> bool:
        """Sends a signal, such as `"SIGHUP"`, to its process group. Returns whether it was running.

        `SIGKILL` goes to everything that it has started, too.
        """
        return await self._calls.send_signal(signal)

    async def terminate(self) -> bool:
        """Sends `SIGTERM`. Returns whether it was running."""
        return await self.send_signal("SIGTERM")

    async def kill(self) -> bool:
        """Sends `SIGKILL` to it and what it has started. Returns whether it was running."""
        return await self.send_signal("SIGKILL")

    async def resize(self, columns: int, rows: int) -> None:
        """Changes the size of its terminal. Raises `Conflict` if it has ended."""
        await self._calls.resize(columns, rows)

    async def poll(self) -> Optional[Outcome]:
        """Returns its outcome; None while it runs."""
        return await self._calls.poll()

    async def wait(self, timeout: Optional[float] = None) -> Outcome:
        """Waits for its end and returns its outcome.

        Raises:
            TimeoutError: It runs on after `timeout` seconds.
        """
        return await self._calls.wait(timeout)

    def stream(self, *, after: Optional[int] = None) -> AsyncEventStream:
        """Follows its events after number `after`; without, from the first that is kept.

        Closing the stream does not stop it. The outcome at the end has only the output of these
        events.

        Raises:
            EventsGone: Those after `after` are no longer kept.
        """
        return AsyncEventStream(self._calls.stream(after))
