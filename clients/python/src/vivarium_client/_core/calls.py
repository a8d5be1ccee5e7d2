"""Making calls: sending, trying again, reading the answer."""

from __future__ import annotations

from http import HTTPStatus
from typing import IO, Callable, Optional, TypeVar

from ..errors import ApiError, NotFound, TransportError, UnexpectedAnswer
from . import requests
from .problem import api_error
from .reading import Reader
from .request import Request
from .retry import Retries
from .transport import Body, Transport

T = TypeVar("T")


class Calls:
    """Calls over a transport."""

    def __init__(self, transport: Transport, max_retries: int) -> None:
        if max_retries < 0:
            raise ValueError("max_retries is at least 0")
        self.transport = transport
        self.max_retries = max_retries

    async def fetch(self, request: Request, read: Callable[[Reader], T]) -> T:
        """The answer, read."""
        body = await self._whole(request)
        return read(Reader.parse(body, f"the answer to {request.method} {request.target}"))

    async def do(self, request: Request) -> None:
        """A call whose answer says no more than that it was carried out."""
        await self._whole(request)

    async def delete_session(self, session_id: str) -> bool:
        """Deletes a session; whether it was there."""
        try:
            await self.do(requests.delete_session(session_id))
        except NotFound:
            return False
        return True

    async def download(self, request: Request) -> bytes:
        """The content of a file, or the part that was asked for."""
        return await self._whole(request)

    async def download_to(self, request: Request, file: IO[bytes]) -> int:
        """Writes the content of a file; how many bytes that were."""
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
        """The head of a successful answer."""
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
        """The head of a successful answer, in one try."""
        body = await self.transport.open(request)
        if HTTPStatus.OK <= body.status < HTTPStatus.MULTIPLE_CHOICES:
            problem = _unexpected(request, body)
            if problem is not None:
                await body.close()
                raise UnexpectedAnswer(problem)
            return body
        raise api_error(body.status, body.headers, await read_all(body))

    async def pause_or_raise(self, retries: Retries, request: Request, error: Exception) -> None:
        """Waits for the next try, or raises what went wrong where there is none."""
        pause_secs = None
        if isinstance(error, (ApiError, TransportError)):
            pause_secs = retries.pause_secs(request, error)
        if pause_secs is None:
            raise error
        await self.transport.sleep(pause_secs)


async def read_all(body: Body) -> bytes:
    """The rest of an answer."""
    parts = []
    try:
        while chunk := await body.read():
            parts.append(chunk)
    finally:
        await body.close()
    return b"".join(parts)


def _unexpected(request: Request, body: Body) -> Optional[str]:
    """What is wrong with a successful answer, if anything is."""
    kind = body.headers.get("content-type", "")
    if request.headers.get("Accept") == "text/event-stream" and not kind.startswith(
        "text/event-stream"
    ):
        return f"asked for events, {request.target} answered {kind or 'nothing'}"
    if "Range" in request.headers and body.status != HTTPStatus.PARTIAL_CONTENT:
        return f"asked for a part, {request.target} answered {body.status}"
    return None


def described(body: Body) -> tuple[Optional[int], Optional[str]]:
    """The size in bytes and the MIME type of what is coming, where the answer says them."""
    length = body.headers.get("content-length", "")
    return int(length) if length.isdecimal() else None, body.headers.get("content-type")
