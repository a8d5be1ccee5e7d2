"""The blocking transport. Its coroutines never suspend."""

from __future__ import annotations

import time
from typing import Optional

import httpx

from .. import _httpx
from .._core.address import Address
from .._core.request import Request


class BlockingBody:
    """A response whose content is still arriving."""

    def __init__(self, response: httpx.Response, address: Address) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response = response
        self._chunks = response.iter_raw()
        self._address = address

    async def read(self) -> bytes:
        """Returns the next bytes; `b""` at the end."""
        with _httpx.as_transport_errors(self._address):
            return next(self._chunks, b"")

    async def close(self) -> None:
        """Closes it at any point."""
        self._response.close()


class BlockingTransport:
    """Sends requests over httpx."""

    def __init__(
        self, address: Address, timeout_secs: float, transport: Optional[httpx.BaseTransport]
    ) -> None:
        self._address = address
        self._timeout_secs = timeout_secs
        # With a transport of our own httpx does not look for proxies in the environment: a daemon
        # on this host is not behind one, and its token is not for one.
        self._http = httpx.Client(
            headers=dict(address.headers()),
            transport=transport
            or httpx.HTTPTransport(
                verify=_httpx.verify(address),
                uds=address.socket,
                limits=_httpx.LIMITS,
                socket_options=_httpx.socket_options(address),
            ),
            trust_env=False,
        )

    async def open(self, request: Request) -> BlockingBody:
        """Sends a request and waits for the head of the response."""
        with _httpx.as_transport_errors(self._address):
            message = self._http.build_request(
                request.method,
                self._address.base + request.target,
                content=_httpx.content(request),
                headers=_httpx.headers(request),
                timeout=_httpx.timeouts(request, self._timeout_secs),
            )
            response = self._http.send(message, stream=True)
        return BlockingBody(response, self._address)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  (nothing else runs here)

    def close(self) -> None:
        """Closes all connections."""
        self._http.close()
