"""The events of an execution, by an iterator that blocks."""

from __future__ import annotations

from types import TracebackType
from typing import Optional

from .._core.stream import Stream
from .._core.transport import run
from ..events import Event
from ..models import Outcome


class EventStream:
    """Gives each event once, as it happens, over as many connections as it takes.

    To be iterated to its end or closed: it is a context manager. Closing it does not stop the
    code, unless `cancel_on_disconnect` was asked for. After an interruption of the iteration,
    such as Ctrl-C, it can be iterated on.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @classmethod
    def _open(cls, stream: Stream) -> EventStream:
        run(stream.open())
        return cls(stream)

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

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> Event:
        event = run(self._stream.next())
        if event is None:
            raise StopIteration
        return event

    def wait(self) -> Outcome:
        """Takes all the events that are left, and returns the outcome."""
        return run(self._stream.finish())

    def close(self) -> None:
        """Lets go of it."""
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
