"""The events of an execution, as a blocking iterator."""

from __future__ import annotations

from types import TracebackType
from typing import Optional

from .._core.stream import Stream
from .._core.transport import run
from ..events import Event
from ..models import Outcome


class EventStream:
    """Yields each event once, as it happens, over as many connections as it takes.

    Iterate it to the end or close it: it is a context manager. Closing it does not stop the code,
    unless `cancel_on_disconnect` was given. If the iteration is interrupted, such as by Ctrl-C, it
    can be continued.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @classmethod
    def _open(cls, stream: Stream) -> EventStream:
        run(stream.open())
        return cls(stream)

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

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        event = run(self._stream.next())
        if event is None:
            raise StopIteration
        return event

    def wait(self) -> Outcome:
        """Reads the remaining events and returns the outcome."""
        return run(self._stream.finish())

    def close(self) -> None:
        """Closes the connection."""
        run(self._stream.close())

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()
