"""The asyncio transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Optional

import httpx

from .. import _httpx
from .._core.address import Address
from .._core.request import Request


class AwaitedBody:
    """A response whose content is still arriving."""

    def __init__(self, response: httpx.Response, address: Address) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._response = response
        self._chunks = response.aiter_raw()
        self._address = address

    async def read(self) -> bytes:
        """Returns the next bytes; `b""` at the end."""
        with _httpx.as_transport_errors(self._address):
            try:
                return await self._chunks.__anext__()
            except StopAsyncIteration:
                return b""

    async def close(self) -> None:
        """Closes it at any point."""
        await self._response.aclose()


class AwaitedTransport:
    """Sends requests over httpx."""

    def __init__(
        self, address: Address, timeout_secs: float, transport: Optional[httpx.AsyncBaseTransport]
    ) -> None:
        self._address = address
        self._timeout_secs = timeout_secs
        # As in the blocking transport: no proxies of the environment.
        self._http = httpx.AsyncClient(
            headers=dict(address.headers()),
            transport=transport
            or httpx.AsyncHTTPTransport(
                verify=_httpx.verify(address),
                uds=address.socket,
                limits=_httpx.LIMITS,
                socket_options=_httpx.socket_options(address),
            ),
            trust_env=False,
        )

    async def open(self, request: Request) -> AwaitedBody:
        """Sends a request and waits for the head of the response."""
        with _httpx.as_transport_errors(self._address):
            message = self._http.build_request(
                request.method,
                self._address.base + request.target,
                content=_awaited(_httpx.content(request)),
                headers=_httpx.headers(request),
                timeout=_httpx.timeouts(request, self._timeout_secs),
            )
            response = await self._http.send(message, stream=True)
        return AwaitedBody(response, self._address)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.aclose()


def _awaited(content: Any) -> Any:
    return _in_thread(content) if isinstance(content, Iterator) else content


async def _in_thread(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Reads a blocking source, such as a file, in a thread."""
    while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
        yield chunk
