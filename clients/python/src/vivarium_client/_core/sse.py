"""Decodes `text/event-stream` (HTML standard, "Server-sent events"), split anywhere.

Bytes in, messages out. Fields other than `id`, `event` and `data` are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True)
class Message:
    """One event."""

    id: str
    """The last id seen, or empty."""
    event: str
    """The type; `message` by default."""
    data: str


class Decoder:
    """Takes a stream piece by piece and yields complete messages."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._ends_in_cr = False
        self._first_line = True
        self._id = ""
        self._event = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Message]:
        """Takes the next bytes and yields each message once. Iterate it to the end."""
        for line in self._lines(chunk):
            text = line.decode(errors="replace")
            if self._first_line:
                self._first_line = False
                text = text.removeprefix("\ufeff")
            if text:
                self._field(text)
                continue
            event, data = self._event, self._data
            self._event, self._data = "", []
            if data:
                yield Message(self._id, event or "message", "\n".join(data))

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        """Yields complete lines. An unfinished line is kept in parts, so that a long line in many
        chunks costs its length once."""
        if self._ends_in_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._ends_in_cr = False
        if not chunk:
            return
        self._ends_in_cr = chunk.endswith(b"\r")
        begin = 0
        for end in _LINE_END.finditer(chunk):
            self._parts.append(chunk[begin : end.start()])
            line = b"".join(self._parts)
            self._parts.clear()
            begin = end.end()
            yield line
        if begin < len(chunk):
            self._parts.append(chunk[begin:])

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self._id = value
