"""Sends requests, retries, and reads responses."""

from __future__ import annotations

from http import HTTPStatus
from typing import IO, Callable, Optional, TypeVar

from ..errors import ApiError, NotFound, TransportError, UnexpectedAnswer
from .problem import api_error
from .reading import Reader
from .request import Request
from .retry import Retries
from .transport import Body, Transport

T = TypeVar("T")


class Calls:
    def __init__(self, transport: Transport, max_retries: int) -> None:
        if max_retries < 0:
            raise ValueError("max_retries is at least 0")
        self.transport = transport
        self.max_retries = max_retries

    async def fetch(self, request: Request, read: Callable[[Reader], T]) -> T:
        """Returns the parsed response."""
        body = await self._whole(request)
        return read(Reader.parse(body, f"the answer to {request.method} {request.target}"))

    async def do(self, request: Request) -> None:
        """Makes a call whose response has no content of interest."""
        await self._whole(request)

    async def delete(self, request: Request) -> bool:
        """Deletes what may be gone. Returns whether it existed."""
        try:
            await self.do(request)
        except NotFound:
            return False
        return True

    async def download(self, request: Request) -> bytes:
        """Returns a file's content, or the requested part."""
        return await self._whole(request)

    async def download_to(self, request: Request, file: IO[bytes]) -> int:
        """Writes a file's content to `file`. Returns the number of bytes."""
        body = await self.open(request)
        size_bytes = 0
        try:
            while chunk := await body.read():
                file.write(chunk)
                size_bytes += len(chunk)
        finally:
            await body.close()
        return size_bytes

    async def open(self, request: Request) -> Body:
        """Returns a successful response, its content unread."""
        retries = Retries(self.max_retries)
        while True:
            try:
                return await self.open_once(request)
            except (ApiError, TransportError) as error:
                await self.pause_or_raise(retries, request, error)

    async def _whole(self, request: Request) -> bytes:
        retries = Retries(self.max_retries)
        while True:
            try:
                return await read_all(await self.open_once(request))
            except (ApiError, TransportError) as error:
                await self.pause_or_raise(retries, request, error)

    async def open_once(self, request: Request) -> Body:
        """Like `open`, without retries."""
        body = await self.transport.open(request)
        if HTTPStatus.OK <= body.status < HTTPStatus.MULTIPLE_CHOICES:
            problem = _unexpected(request, body)
            if problem is not None:
                await body.close()
                raise UnexpectedAnswer(problem)
            return body
        raise api_error(body.status, body.headers, await read_all(body))

    async def pause_or_raise(self, retries: Retries, request: Request, error: Exception) -> None:
        """Waits for the next try, or raises `error` if there is none."""
        pause_secs = None
        if isinstance(error, (ApiError, TransportError)):
            pause_secs = retries.pause_secs(request, error)
        if pause_secs is None:
            raise error
        await self.transport.sleep(pause_secs)


async def read_all(body: Body) -> bytes:
    """Returns the rest of a response."""
    parts = []
    try:
        while chunk := await body.read():
            parts.append(chunk)
    finally:
        await body.close()
    return b"".join(parts)


def _unexpected(request: Request, body: Body) -> Optional[str]:
    """Says what is wrong with a successful response, if anything."""
    kind = body.headers.get("content-type", "")
    if request.headers.get("Accept") == "text/event-stream" and not kind.startswith(
        "text/event-stream"
    ):
        return f"asked for events, {request.target} answered {kind or 'nothing'}"
    if "Range" in request.headers and body.status != HTTPStatus.PARTIAL_CONTENT:
        return f"asked for a part, {request.target} answered {body.status}"
    return None


def described(body: Body) -> tuple[Optional[int], Optional[str]]:
    """Returns size in bytes and MIME type, if the response has them."""
    length = body.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None, body.headers.get("content-type")
