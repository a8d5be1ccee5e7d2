"""Translates the core's requests to httpx, and httpx's failures to ours, for both clients."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from ._core.address import Address
from ._core.content import Source
from ._core.request import Patience, Request
from .errors import TransportError

# The daemon's streams say something every 15 s.
_EVENTS_READ_TIMEOUT_SECS = 60.0

# As many as are asked for: one that had to wait for an execution of another could wait for ever.
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=5)


def socket_options(address: Address) -> list[tuple[int, int, int]]:
    """Keep-alive probes: a response may take long, and only probes notice a lost host."""
    if address.socket is not None:
        return []
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        # tcp(7): Linux has all three, others not.
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return options


def verify(address: Address) -> bool:
    """Whether to load certificates, which takes tens of milliseconds: only for https.
    Redirections are not followed."""
    return address.base.startswith("https:")


def timeouts(request: Request, timeout_secs: float) -> httpx.Timeout:
    """Timeouts for connecting and for each read or write."""
    read_secs = {
        Patience.CALL: timeout_secs,
        Patience.WORK: None,
        Patience.EVENTS: _EVENTS_READ_TIMEOUT_SECS,
    }
    return httpx.Timeout(timeout_secs, read=read_secs[request.patience])


def headers(request: Request) -> dict[str, str]:
    """The request's headers, with the content's length if known."""
    own = dict(request.headers)
    if isinstance(request.content, Source) and request.content.size_bytes is not None:
        own["Content-Length"] = str(request.content.size_bytes)
    return own


def content(request: Request) -> Any:
    """The content, from the first byte."""
    return request.content.begin() if isinstance(request.content, Source) else request.content


@contextmanager
def as_transport_errors(address: Address) -> Iterator[None]:
    """Turns httpx's failures into ours."""
    try:
        yield
    except httpx.HTTPError as error:
        unsent = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        reason = str(error) or type(error).__name__
        reached = not isinstance(error, unsent)
        raise TransportError(f"{address.url}: {reason}", reached=reached) from error
