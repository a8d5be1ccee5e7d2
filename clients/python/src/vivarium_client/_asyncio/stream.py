"""The events of an execution, by an asynchronous iterator."""

from __future__ import annotations

from types import TracebackType
from typing import Optional

from .._core.stream import Stream
from ..events import Event
from ..models import Outcome


class AsyncEventStream:
    """Gives each event once, as it happens, over as many connections as it takes.

    To be iterated to its end or closed: it is a context manager. The request is sent when it is
    entered or first iterated. Closing it does not stop the
    code, unless `cancel_on_disconnect` was asked for. After an interruption of the iteration,
    such as a cancellation, it can be iterated on.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def session_id(self) -> Optional[str]:
        """The session, once it is known."""
        return self._stream.session_id

    @property
    def execution_id(self) -> Optional[str]:
        """The execution within it, once it is known."""
        return self._stream.execution_id

    @property
    def outcome(self) -> Optional[Outcome]:
        """What became of it, after the last event."""
        return self._stream.outcome

    def __aiter__(self) -> AsyncEventStream:
        return self

    async def __anext__(self) -> Event:
        event = await self._stream.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def wait(self) -> Outcome:
        """Takes all the events that are left, and returns the outcome."""
        return await self._stream.finish()

    async def close(self) -> None:
        """Lets go of it."""
        await self._stream.close()

    async def __aenter__(self) -> AsyncEventStream:
        await self._stream.open()
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()
