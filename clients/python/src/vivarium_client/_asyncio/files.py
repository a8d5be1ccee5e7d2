"""Files of a session, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import IO, Optional, Union

from .._core import requests
from .._core.calls import Calls, described
from .._core.content import AsyncContent, Source
from .._core.listing import file_page
from .._core.local import StrPath, replacing
from .._core.request import Request
from .._core.transport import Body
from .._core.watching import WatchCore
from ..models import FileEntry, FileEvent


class AsyncFiles:
    """Files of a session. Paths are relative to the working directory, or absolute."""

    def __init__(self, calls: Calls, session_id: str) -> None:
        self._calls = calls
        self._session_id = session_id

    async def put(self, path: str, content: AsyncContent) -> None:
        """Creates or replaces a file, which appears when the upload is complete.

        Args:
            path: Path relative to the working directory, or absolute.
            content: Text, bytes, a local file (`pathlib.Path` or open), or an iterable of bytes,
                also an asynchronous one. It is streamed.
        """
        await self._calls.do(requests.put_file(self._session_id, path, Source.of(content)))

    async def put_tar(self, content: AsyncContent, path: str = "") -> None:
        """Unpacks an uncompressed tar archive into `path` (default: the working directory)."""
        await self._calls.do(requests.put_tar(self._session_id, path, Source.of(content)))

    async def get(self, path: str, *, offset: int = 0, length: Optional[int] = None) -> bytes:
        """Returns a file's content, or at most `length` bytes of it from byte `offset` on.

        Of a directory: a tar archive.
        """
        request = requests.get_file(self._session_id, path, offset, length)
        return await self._calls.download(request)

    async def download(self, path: str, target: Union[StrPath, IO[bytes]]) -> int:
        """Streams a file to a local path or an open file. Returns the number of bytes.

        A directory comes as a tar archive.

        A file at a local path is replaced only when the download is complete.
        """
        request = requests.get_file(self._session_id, path, 0, None)
        with replacing(target) as file:
            return await self._calls.download_to(request, file)

    def open(self, path: str) -> AsyncRemoteFile:
        """Opens a file for streaming: `async with session.files.open("a.csv") as file`."""
        return AsyncRemoteFile(self._calls, requests.get_file(self._session_id, path, 0, None))

    async def list(self, path: str = "", *, recursive: bool = False) -> AsyncIterator[FileEntry]:
        """Yields a directory's entries, in byte order of their paths."""
        after = None
        while True:
            request = requests.list_files(self._session_id, path, recursive, after, None)
            page = await self._calls.fetch(request, file_page)
            for entry in page.entries:
                yield entry
            after = page.next
            if after is None:
                return

    async def watch(self, path: str = "", *, recursive: bool = True) -> AsyncFileEvents:
        """Returns changes below a directory: `async for event in await session.files.watch()`.

        Returns once changes are seen. They end with the session, or when they are closed.
        """
        core = WatchCore(self._calls, self._session_id, path, recursive)
        await core.open()
        return AsyncFileEvents(core)

    async def stat(self, path: str) -> FileEntry:
        """Describes what is at a path. A link is not followed."""
        request = requests.stat(self._session_id, path)
        return await self._calls.fetch(request, FileEntry._read)

    async def make_directory(self, path: str) -> None:
        """Makes a directory, and those it lies in, where they are missing."""
        await self._calls.do(requests.make_directory(self._session_id, path))

    async def move(self, path: str, to: str, *, replace: bool = False) -> FileEntry:
        """Gives a file, directory or link another path; not between the directory and `/tmp`.

        Args:
            path: Its path.
            to: Its new path. Missing parent directories are made.
            replace: Whether to replace a file that is there.
        """
        request = requests.move(self._session_id, path, to, replace)
        return await self._calls.fetch(request, FileEntry._read)

    async def chmod(self, path: str, mode: Union[int, str]) -> FileEntry:
        """Changes a file's or directory's permissions: `0o644` or `"0644"`, at most `0o777`."""
        request = requests.chmod(self._session_id, path, mode)
        return await self._calls.fetch(request, FileEntry._read)

    async def delete(self, path: str) -> None:
        """Removes a file, a link (not its target), or a directory with everything in it."""
        await self._calls.do(requests.delete_file(self._session_id, path))


class AsyncFileEvents:
    """Changes of files. Iterate it to the end or close it: it is a context manager."""

    def __init__(self, core: WatchCore) -> None:
        self._core = core

    def __aiter__(self) -> AsyncFileEvents:
        return self

    async def __anext__(self) -> FileEvent:
        event = await self._core.next()
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> AsyncFileEvents:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connection."""
        await self._core.close()


class AsyncRemoteFile:
    """A file of a session, streamed from beginning to end.

    Entering it as a context manager sends the request.
    """

    size_bytes: Optional[int]
    """None if the daemon does not say."""
    mime_type: Optional[str]
    """The daemon's guess."""

    def __init__(self, calls: Calls, request: Request) -> None:
        self._calls = calls
        self._request = request
        self._body: Optional[Body] = None
        self.size_bytes = None
        self.mime_type = None

    async def __aenter__(self) -> AsyncRemoteFile:
        self._body = await self._calls.open(self._request)
        self.size_bytes, self.mime_type = described(self._body)
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._body is not None:
            await self._body.close()

    def __aiter__(self) -> AsyncRemoteFile:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self.read()
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def read(self) -> bytes:
        """Returns the bytes that have arrived; `b""` at the end."""
        if self._body is None:
            raise ValueError("the file is not open: enter it first")
        return await self._body.read()
