"""Follows a streamed execution over as many connections as it takes.

Every event is yielded once and in order: after a dropped connection the stream continues after
the last event. An execution never runs twice: until its id is known, the same request is sent
again with the same Idempotency-Key.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Optional

from ..errors import ApiError, TransportError
from ..events import AwaitingApproval, Call, Done, Event, Started
from ..models.names import Keep
from ..models.outcome import Execution, Outcome
from . import requests
from .calls import Calls
from .collect import Collector, event_number
from .request import Request
from .retry import Retries
from .sse import Decoder
from .transport import Body

if TYPE_CHECKING:
    from .tools import Answerer


async def finish(
    calls: Calls,
    stream: Stream,
    max_output_chars: Optional[int],
    keep: Optional[Keep],
    answer: Optional[requests.AnswerForm],
) -> Outcome:
    """Follows an execution to its end. Returns its outcome, in the form that was asked for."""
    try:
        outcome = await stream.finish()
    finally:
        await stream.close()
    if max_output_chars is None and keep is None and answer is None:
        return outcome
    # A stream tells all that was printed.
    request = requests.execution(
        outcome.session_id, outcome.execution_id, max_output_chars, keep, answer
    )
    told = (await calls.fetch(request, Execution._read)).outcome
    return outcome if told is None else told


class Stream:
    """One execution's events."""

    def __init__(
        self,
        calls: Calls,
        request: Request,
        last: int = 0,
        answerer: Optional[Answerer] = None,
    ) -> None:
        self._calls = calls
        self._answerer = answerer
        self._request = request
        self._retries = Retries(calls.max_retries)
        self._collector = Collector()
        self._ready: deque[Event] = deque()
        self._decoder = Decoder()
        self._body: Optional[Body] = None
        self._closed = False
        self._from_first_kept = False
        self.session_id: Optional[str] = None
        self.execution_id: Optional[str] = None
        self.last_number = last
        self.outcome: Optional[Outcome] = None

    @classmethod
    def attach(
        cls, calls: Calls, session_id: str, execution_id: str, after: Optional[int]
    ) -> Stream:
        """Follows an execution after event number `after`, or from the first that is kept."""
        stream = cls(calls, requests.events(session_id, execution_id, after), after or 0)
        stream._from_first_kept = after is None
        stream.session_id, stream.execution_id = session_id, execution_id
        return stream

    async def open(self) -> None:
        """Sends the request, unless it has been sent."""
        while self._body is None and not self._closed:
            await self._step()

    async def next(self) -> Optional[Event]:
        """Returns the next event; None after the last. If this call is interrupted, such as by
        Ctrl-C, the next one continues where it was."""
        while not self._ready:
            if self._closed:
                return None
            await self._step()
        event = self._ready.popleft()
        if isinstance(event, Done):
            self.outcome = event.outcome
            await self.close()
        return event

    async def finish(self) -> Outcome:
        """Reads the remaining events and returns the outcome."""
        while await self.next() is not None:
            pass
        if self.outcome is None:
            raise TransportError("the stream was closed before its end")
        return self.outcome

    async def close(self) -> None:
        """Closes it at any point."""
        self._closed = True
        if self._answerer is not None:
            self._answerer.close()
        await self._disconnect()

    async def _step(self) -> None:
        """Connects or reads; waits and reconnects if that may help."""
        try:
            if self._body is None:
                await self._connect()
            else:
                await self._read(self._body)
        except (ApiError, TransportError) as error:
            await self._disconnect()
            await self._calls.pause_or_raise(self._retries, self._request, error)
        except BaseException:
            await self._disconnect()
            raise

    async def _connect(self) -> None:
        if self.session_id is not None and self.execution_id is not None:
            after = self.last_number or (None if self._from_first_kept else 0)
            self._request = requests.events(self.session_id, self.execution_id, after)
        self._decoder = Decoder()
        self._body = await self._calls.open_once(self._request)

    async def _read(self, body: Body) -> None:
        chunk = await body.read()
        if not chunk:
            raise TransportError("the stream of events ended before the execution did")
        for message in self._decoder.feed(chunk):
            number = event_number(message)
            if number <= self.last_number:
                continue
            event = self._collector.event(number, message)
            self.last_number = number
            self._retries.begin_anew()
            if isinstance(event, (AwaitingApproval, Started)):
                self.session_id, self.execution_id = event.session_id, event.execution_id
            if isinstance(event, Call) and self._answerer is not None:
                self._answerer.begin(event)
            if event is not None:
                self._ready.append(event)

    async def _disconnect(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.close()
