"""Changes of files, read from a stream of events."""

from __future__ import annotations

from collections import deque
from typing import Optional

from ..errors import TransportError
from ..models import FileEvent
from . import requests
from .calls import Calls
from .reading import Reader
from .sse import Decoder
from .transport import Body


class WatchCore:
    """One connection: changes while there is none would be missed, so it is not opened again."""

    def __init__(self, calls: Calls, session_id: str, path: str, recursive: bool) -> None:
        self._calls = calls
        self._request = requests.watch(session_id, path, recursive)
        self._body: Optional[Body] = None
        self._decoder = Decoder()
        self._events: deque[FileEvent] = deque()
        self._is_ready = False

    async def open(self) -> None:
        """Returns once changes are seen."""
        self._body = await self._calls.open(self._request)
        while not self._is_ready:
            if not await self._read():
                raise TransportError("the stream ended before it began")

    async def next(self) -> Optional[FileEvent]:
        """The next event; None at the end."""
        while not self._events:
            if not await self._read():
                return None
        return self._events.popleft()

    async def close(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            await body.close()

    async def _read(self) -> bool:
        if self._body is None:
            return False
        chunk = await self._body.read()
        for message in self._decoder.feed(chunk):
            if message.event == "ready":
                self._is_ready = True
            else:
                reader = Reader.parse(message.data.encode(), "an event of a file")
                self._events.append(FileEvent._read(message.event, reader))
        return bool(chunk)
