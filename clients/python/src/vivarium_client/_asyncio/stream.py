"""The events of an execution, as an asynchronous iterator."""

from __future__ import annotations

from types import TracebackType
from typing import Optional

from .._core.stream import Stream
from ..events import Event
from ..models import Outcome


class AsyncEventStream:
    """Yields each event once, as it happens, over as many connections as it takes.

    Entering or first iterating it sends the request. Iterate it to the end or close it: it is a
    context manager. Closing it does not stop the code, unless `cancel_on_disconnect` was given. If
    the iteration is interrupted, such as by a cancellation, it can be continued.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def session_id(self) -> Optional[str]:
        """The session's id, once known."""
        return self._stream.session_id

    @property
    def execution_id(self) -> Optional[str]:
        """The execution's id, once known."""
        return self._stream.execution_id

    @property
    def outcome(self) -> Optional[Outcome]:
        """The outcome, after the last event."""
        return self._stream.outcome

    def __aiter__(self) -> AsyncEventStream:
        return self

    async def __anext__(self) -> Event:
        event = await self._stream.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def wait(self) -> Outcome:
        """Reads the remaining events and returns the outcome."""
        return await self._stream.finish()

    async def close(self) -> None:
        """Closes the connection."""
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
