"""A command that runs in the background, with blocking calls."""

from __future__ import annotations

from typing import Optional, Union

from .._core.process import ProcessCalls, Signal
from .._core.transport import run
from ..models import Outcome
from .stream import EventStream


class Process:
    """A command in the background. Get one from `Session.start` or `Session.process`.

    It does not end with this object, and not with this program: see `Session.start`.
    """

    def __init__(self, calls: ProcessCalls) -> None:
        self._calls = calls

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    @property
    def id(self) -> str:
        """The execution's id, with which any client of the tenant finds it."""
        return self._calls.id

    def write(self, data: Union[str, bytes]) -> int:
        """Writes to standard input. Returns the number of bytes, once the pipe has taken them.

        Raises:
            Conflict: The command has ended, or was not started with `stdin_open`.
            QuotaExceeded: It has read nothing for 30 s; `detail` says how much was written.
        """
        return run(self._calls.write(data))

    def close_stdin(self) -> None:
        """Ends standard input. Does nothing if the command has ended."""
        run(self._calls.close_stdin())

    def send_signal(self, signal: Signal) -> bool:
        """Sends a signal, such as `"SIGHUP"`, to its process group. Returns whether it was running.

        `SIGKILL` goes to everything that it has started, too.
        """
        return run(self._calls.send_signal(signal))

    def terminate(self) -> bool:
        """Sends `SIGTERM`. Returns whether it was running."""
        return self.send_signal("SIGTERM")

    def kill(self) -> bool:
        """Sends `SIGKILL` to it and what it has started. Returns whether it was running."""
        return self.send_signal("SIGKILL")

    def resize(self, columns: int, rows: int) -> None:
        """Changes the size of its terminal. Raises `Conflict` if it has ended."""
        run(self._calls.resize(columns, rows))

    def poll(self) -> Optional[Outcome]:
        """Returns its outcome; None while it runs."""
        return run(self._calls.poll())

    def wait(self, timeout: Optional[float] = None) -> Outcome:
        """Waits for its end and returns its outcome.

        Raises:
            TimeoutError: It runs on after `timeout` seconds.
        """
        return run(self._calls.wait(timeout))

    def stream(self, *, after: Optional[int] = None) -> EventStream:
        """Follows its events after number `after`; without, from the first that is kept.

        Closing the stream does not stop it. The outcome at the end has only the output of these
        events.

        Raises:
            EventsGone: Those after `after` are no longer kept.
        """
        return EventStream._open(self._calls.stream(after))
