"""What the core asks of a network, and how coroutines are run without an event loop.

The logic of both clients is written once, as coroutines over `Transport`. Over the blocking
transport nothing in them ever suspends, so `run` can take them to their end in one step.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from .request import Request

T = TypeVar("T")


class Body(Protocol):
    """An answer whose content is still coming."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, in any case."""

    async def read(self) -> bytes:
        """The next bytes; none at the end. Raises `TransportError` if they do not come."""

    async def close(self) -> None:
        """Ends it, wherever it is."""


class Transport(Protocol):
    """Sends requests."""

    async def open(self, request: Request) -> Body:
        """Sends a request and waits for the head of the answer.

        Raises `TransportError`.
        """

    async def sleep(self, seconds: float) -> None:
        """Waits."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs what never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking transport has suspended")
