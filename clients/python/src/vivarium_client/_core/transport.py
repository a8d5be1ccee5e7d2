"""What the core needs of a network, and how to run coroutines without an event loop.

The logic of both clients is written once, as coroutines over `Transport`. Over the blocking
transport nothing in them ever suspends, so `run` can complete them in one step.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from .request import Request

T = TypeVar("T")


class Body(Protocol):
    """A response whose content is still arriving."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, case-insensitive."""

    async def read(self) -> bytes:
        """Returns the next bytes; `b""` at the end. Raises `TransportError`."""

    async def close(self) -> None:
        """Closes it at any point."""


class Transport(Protocol):
    """Sends requests."""

    async def open(self, request: Request) -> Body:
        """Sends a request and waits for the head of the response."""

    async def sleep(self, seconds: float) -> None:
        """Waits."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a blocking transport has suspended")
