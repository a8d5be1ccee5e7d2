"""Reads the daemon's JSON.

Client and daemon may be of different versions: unknown fields are ignored, and a missing or null
field has its default. A field of the wrong type is an error: then something other than the daemon
has answered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Optional, TypeVar

from ..errors import UnexpectedAnswer

T = TypeVar("T")


class Reader:
    """One JSON object."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise UnexpectedAnswer(f"{where} is no JSON object")
        self.fields: dict[str, Any] = value
        self.where = where

    @classmethod
    def parse(cls, body: bytes, where: str) -> Reader:
        """Parses a response's body."""
        try:
            return cls(json.loads(body), where)
        except ValueError as error:
            raise UnexpectedAnswer(f"{where} is no JSON: {error}") from error

    def _get(self, name: str, kind: type[T]) -> Optional[T]:
        value = self.fields.get(name)
        if value is None or (isinstance(value, kind) and not _is_bool_as_number(value, kind)):
            return value
        raise UnexpectedAnswer(f"{self.where}.{name} is {value!r:.40}, not a {kind.__name__}")

    def text(self, name: str) -> str:
        """A string; empty if missing."""
        return self._get(name, str) or ""

    def optional_text(self, name: str) -> Optional[str]:
        """A string, if there."""
        return self._get(name, str)

    def required_text(self, name: str) -> str:
        """A string that must be there."""
        value = self._get(name, str)
        if value is None:
            raise UnexpectedAnswer(f"{self.where}.{name} is missing")
        return value

    def integer(self, name: str) -> int:
        """An integer; 0 if missing."""
        return self._get(name, int) or 0

    def optional_integer(self, name: str) -> Optional[int]:
        """An integer, if there."""
        return self._get(name, int)

    def number(self, name: str) -> float:
        """A number; 0 if missing."""
        value = self.fields.get(name)
        return float(value) if type(value) is int else self._get(name, float) or 0.0

    def flag(self, name: str) -> bool:
        """True or false; false if missing."""
        return self._get(name, bool) or False

    def object(self, name: str) -> Reader:
        """An object; an empty one if missing."""
        return self.optional_object(name) or Reader({}, f"{self.where}.{name}")

    def optional_object(self, name: str) -> Optional[Reader]:
        """An object, if there."""
        value = self.fields.get(name)
        return None if value is None else Reader(value, f"{self.where}.{name}")

    def objects(self, name: str) -> Iterator[Reader]:
        """The objects of an array; none if missing."""
        for index, value in enumerate(self._get(name, list) or []):
            yield Reader(value, f"{self.where}.{name}[{index}]")

    def texts(self, name: str) -> dict[str, str]:
        """An object of strings; other values are returned as JSON."""
        fields = self.object(name).fields.items()
        return {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in fields
        }

    def strings(self, name: str) -> tuple[str, ...]:
        """The strings of an array; none if missing."""
        return tuple(str(value) for value in self._get(name, list) or [])

    def sizes(self, name: str) -> dict[str, int]:
        """An object of integers; other values are left out."""
        fields = self.object(name).fields.items()
        return {key: value for key, value in fields if type(value) is int}

    def optional_sizes(self, name: str) -> Optional[dict[str, int]]:
        """An object of integers, if there."""
        return None if self.fields.get(name) is None else self.sizes(name)

    def optional_lists(self, name: str) -> Optional[tuple[tuple[str, ...], ...]]:
        """An array of arrays of strings, if there."""
        lists = self._get(name, list)
        if lists is None:
            return None
        return tuple(tuple(map(str, one)) for one in lists if isinstance(one, list))

    def time(self, name: str) -> datetime:
        """A time (RFC 3339)."""
        return _time(self.required_text(name), f"{self.where}.{name}")

    def optional_time(self, name: str) -> Optional[datetime]:
        """A time (RFC 3339), if there."""
        value = self.optional_text(name)
        return None if value is None else _time(value, f"{self.where}.{name}")


def _is_bool_as_number(value: object, kind: type) -> bool:
    return isinstance(value, bool) and kind is not bool


# `datetime` keeps microseconds; the daemon sends up to nine digits.
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6})\d*)?(?:Z|\+00:00)")


def _time(text: str, where: str) -> datetime:
    match = _MOMENT.fullmatch(text)
    try:
        if match is None:
            raise ValueError(text)
        whole = datetime.strptime(match[1], "%Y-%m-%dT%H:%M:%S")
    except ValueError as error:
        raise UnexpectedAnswer(f"{where} is {text!r:.40}, not a time in UTC") from error
    micros = int((match[2] or "0").ljust(6, "0"))
    return whole.replace(microsecond=micros, tzinfo=timezone.utc)
