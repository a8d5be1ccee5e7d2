"""The calls of a command that runs in the background."""

from __future__ import annotations

import signal as signals
import time
from typing import Optional, Union

from ..errors import Conflict, EventsGone
from ..models.outcome import Execution, Outcome
from . import requests
from .calls import Calls
from .reading import Reader
from .stream import Stream

Signal = Union[str, signals.Signals]
"""A signal, or its name."""

# How often a daemon is asked by who does not wait for longer than some time.
_FIRST_PAUSE_SECS = 0.01
_LONGEST_PAUSE_SECS = 0.5


def started_id(reader: Reader) -> str:
    """The id of a command that was started."""
    return reader.required_text("execution_id")


class ProcessCalls:
    def __init__(self, calls: Calls, session_id: str, id: str) -> None:
        self.id = id
        self._calls = calls
        self._session_id = session_id

    async def write(self, data: Union[str, bytes]) -> int:
        if isinstance(data, str):
            data = data.encode()
        request = requests.write_stdin(self._session_id, self.id, data, close=False)
        return await self._calls.fetch(request, lambda reply: reply.integer("written_bytes"))

    async def close_stdin(self) -> None:
        request = requests.write_stdin(self._session_id, self.id, b"", close=True)
        try:
            await self._calls.do(request)
        except Conflict as error:
            if error.code != "not_running":
                raise

    async def send_signal(self, signal: Signal) -> bool:
        name = signal.name if isinstance(signal, signals.Signals) else signal
        try:
            await self._calls.do(requests.signal(self._session_id, self.id, name))
        except Conflict as error:
            if error.code != "not_running":
                raise
            return False
        return True

    async def resize(self, columns: int, rows: int) -> None:
        await self._calls.do(requests.resize(self._session_id, self.id, columns, rows))

    async def poll(self) -> Optional[Outcome]:
        request = requests.execution(self._session_id, self.id)
        return (await self._calls.fetch(request, Execution._read)).outcome

    async def wait(self, timeout: Optional[float]) -> Outcome:
        if timeout is not None:
            return await self._poll_for(timeout)
        while True:
            outcome = await self.poll()
            if outcome is not None:
                return outcome
            stream = self.stream(None)
            try:
                await stream.finish()
            except EventsGone:
                # The connection broke, and much was printed since: on with what is kept now.
                pass
            finally:
                await stream.close()

    async def _poll_for(self, timeout: float) -> Outcome:
        deadline = time.monotonic() + timeout
        pause_secs = _FIRST_PAUSE_SECS
        while True:
            outcome = await self.poll()
            if outcome is not None:
                return outcome
            left_secs = deadline - time.monotonic()
            if left_secs <= 0:
                raise TimeoutError(f"process {self.id} has not ended in {timeout} seconds")
            await self._calls.transport.sleep(min(pause_secs, left_secs))
            pause_secs = min(2 * pause_secs, _LONGEST_PAUSE_SECS)

    def stream(self, after: Optional[int]) -> Stream:
        return Stream.attach(self._calls, self._session_id, self.id, after)
