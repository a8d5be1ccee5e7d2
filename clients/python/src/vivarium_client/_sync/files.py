"""Files of a session, with blocking calls."""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import TracebackType
from typing import IO, TYPE_CHECKING, Optional, Union

from .._core import requests
from .._core.calls import Calls, described
from .._core.content import Content, Source
from .._core.listing import file_page
from .._core.local import StrPath, replacing
from .._core.transport import Body, run
from .._core.watching import WatchCore
from ..models import FileEntry, FileEvent

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_BUFFER_BYTES = 1 << 16


class Files:
    """Files of a session. Paths are relative to the working directory, or absolute."""

    def __init__(self, calls: Calls, session_id: str) -> None:
        self._calls = calls
        self._session_id = session_id

    def put(self, path: str, content: Content) -> None:
        """Creates or replaces a file, which appears when the upload is complete.

        Args:
            path: Path relative to the working directory, or absolute.
            content: Text, bytes, a local file (`pathlib.Path` or open), or an iterable of bytes.
                It is streamed.
        """
        run(self._calls.do(requests.put_file(self._session_id, path, Source.of(content))))

    def put_tar(self, content: Content, path: str = "") -> None:
        """Unpacks an uncompressed tar archive into `path` (default: the working directory)."""
        run(self._calls.do(requests.put_tar(self._session_id, path, Source.of(content))))

    def get(self, path: str, *, offset: int = 0, length: Optional[int] = None) -> bytes:
        """Returns a file's content, or at most `length` bytes of it from byte `offset` on.

        Of a directory: a tar archive.
        """
        request = requests.get_file(self._session_id, path, offset, length)
        return run(self._calls.download(request))

    def download(self, path: str, target: Union[StrPath, IO[bytes]]) -> int:
        """Streams a file to a local path or an open file. Returns the number of bytes.

        A directory comes as a tar archive.

        A file at a local path is replaced only when the download is complete.
        """
        request = requests.get_file(self._session_id, path, 0, None)
        with replacing(target) as file:
            return run(self._calls.download_to(request, file))

    def open(self, path: str) -> RemoteFile:
        """Opens a file for streaming: `with session.files.open("a.csv") as file`."""
        request = requests.get_file(self._session_id, path, 0, None)
        return RemoteFile(run(self._calls.open(request)))

    def list(self, path: str = "", *, recursive: bool = False) -> Iterator[FileEntry]:
        """Yields a directory's entries, in byte order of their paths."""
        after = None
        while True:
            request = requests.list_files(self._session_id, path, recursive, after, None)
            page = run(self._calls.fetch(request, file_page))
            yield from page.entries
            after = page.next
            if after is None:
                return

    def watch(self, path: str = "", *, recursive: bool = True) -> FileEvents:
        """Yields changes below a directory as they come: `for event in session.files.watch()`.

        Returns once changes are seen. Ends with the session, or when it is closed.
        """
        events = FileEvents(WatchCore(self._calls, self._session_id, path, recursive))
        run(events._core.open())
        return events

    def stat(self, path: str) -> FileEntry:
        """Describes what is at a path. A link is not followed."""
        request = requests.stat(self._session_id, path)
        return run(self._calls.fetch(request, FileEntry._read))

    def make_directory(self, path: str) -> None:
        """Makes a directory, and those it lies in, where they are missing."""
        run(self._calls.do(requests.make_directory(self._session_id, path)))

    def move(self, path: str, to: str, *, replace: bool = False) -> FileEntry:
        """Gives a file, directory or link another path; not between the directory and `/tmp`.

        Args:
            path: Its path.
            to: Its new path. Missing parent directories are made.
            replace: Whether to replace a file that is there.
        """
        request = requests.move(self._session_id, path, to, replace)
        return run(self._calls.fetch(request, FileEntry._read))

    def chmod(self, path: str, mode: Union[int, str]) -> FileEntry:
        """Changes a file's or directory's permissions: `0o644` or `"0644"`, at most `0o777`."""
        request = requests.chmod(self._session_id, path, mode)
        return run(self._calls.fetch(request, FileEntry._read))

    def delete(self, path: str) -> None:
        """Removes a file, a link (not its target), or a directory with everything in it."""
        run(self._calls.do(requests.delete_file(self._session_id, path)))


class FileEvents:
    """Changes of files. Iterate it to the end or close it: it is a context manager."""

    def __init__(self, core: WatchCore) -> None:
        self._core = core

    def __iter__(self) -> FileEvents:
        return self

    def __next__(self) -> FileEvent:
        event = run(self._core.next())
        if event is None:
            raise StopIteration
        return event

    def __enter__(self) -> FileEvents:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        run(self._core.close())


class RemoteFile(io.BufferedReader):
    """A file of a session, streamed from beginning to end. Close it."""

    size_bytes: Optional[int]
    """None if the daemon does not say."""
    mime_type: Optional[str]
    """The daemon's guess."""

    def __init__(self, body: Body) -> None:
        super().__init__(_RawBody(body), _BUFFER_BYTES)
        self.size_bytes, self.mime_type = described(body)


class _RawBody(io.RawIOBase):
    def __init__(self, body: Body) -> None:
        self._body = body
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        if not self._rest:
            self._rest = memoryview(run(self._body.read()))
        target = memoryview(buffer).cast("B")
        size_bytes = min(len(target), len(self._rest))
        target[:size_bytes] = self._rest[:size_bytes]
        self._rest = self._rest[size_bytes:]
        return size_bytes

    def close(self) -> None:
        if not self.closed:
            run(self._body.close())
        super().close()
