"""Content to send: text, bytes, a local file, or an iterable of bytes."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from typing import IO, Any, Callable, Optional, Union

_CHUNK_BYTES = 1 << 20

Content = Union[str, bytes, "os.PathLike[str]", IO[bytes], Iterable[bytes]]
"""A `str` is sent as UTF-8. A local file is a `pathlib.Path` or an open file."""

AsyncContent = Union[Content, AsyncIterable[bytes]]
"""`Content`, or an asynchronous iterable of bytes."""

InputFiles = Mapping[str, Union[str, bytes, "os.PathLike[str]", IO[bytes]]]
"""Content by path in the working directory."""


class Source:
    """The source of a body's bytes."""

    def __init__(
        self,
        begin: Callable[[], Union[Iterator[bytes], AsyncIterator[bytes]]],
        *,
        size_bytes: Optional[int],
        repeatable: bool,
    ) -> None:
        self.begin = begin
        """Starts at the first byte."""
        self.size_bytes = size_bytes
        """None if unknown in advance."""
        self.repeatable = repeatable
        """Whether `begin` works a second time."""

    @classmethod
    def of(cls, content: AsyncContent) -> Source:
        """Wraps what a caller passed."""
        if isinstance(content, str):
            content = content.encode()
        if isinstance(content, (bytes, bytearray, memoryview)):
            whole = bytes(content)
            return cls(lambda: _parts(whole), size_bytes=len(whole), repeatable=True)
        if isinstance(content, os.PathLike):
            return cls._of_path(content)
        if hasattr(content, "read"):
            return cls._of_file(content)
        if isinstance(content, AsyncIterable):
            return cls(content.__aiter__, size_bytes=None, repeatable=False)
        if isinstance(content, Iterable):
            parts = content
            return cls(lambda: iter(parts), size_bytes=None, repeatable=False)
        raise TypeError(f"{type(content).__name__} is no content: give str, bytes, a Path, a file")

    @classmethod
    def _of_path(cls, path: os.PathLike[str]) -> Source:
        size_bytes = os.stat(path).st_size

        def begin() -> Iterator[bytes]:
            with open(path, "rb") as file:
                yield from _read(file, size_bytes)

        return cls(begin, size_bytes=size_bytes, repeatable=True)

    @classmethod
    def _of_file(cls, file: Any) -> Source:
        if isinstance(file, io.TextIOBase):
            raise TypeError("the file is open for text: open it in binary mode")
        if not file.seekable():
            return cls(lambda: _read(file, None), size_bytes=None, repeatable=False)
        start = file.tell()
        size_bytes = file.seek(0, os.SEEK_END) - start
        file.seek(start)

        def begin() -> Iterator[bytes]:
            file.seek(start)
            return _read(file, size_bytes)

        return cls(begin, size_bytes=size_bytes, repeatable=True)


def _parts(whole: bytes) -> Iterator[bytes]:
    for start in range(0, len(whole), _CHUNK_BYTES):
        yield whole[start : start + _CHUNK_BYTES]


def _read(file: IO[bytes], size_bytes: Optional[int]) -> Iterator[bytes]:
    """Reads a file, at most as much as was announced: it may grow meanwhile."""
    left = size_bytes
    while left != 0:
        chunk = file.read(_CHUNK_BYTES if left is None else min(_CHUNK_BYTES, left))
        if not chunk:
            return
        if left is not None:
            left -= len(chunk)
        yield chunk


def input_files(files: Optional[InputFiles]) -> list[dict[str, str]]:
    """Encodes files for a JSON request."""
    return [_input_file(name, content) for name, content in (files or {}).items()]


def _input_file(name: str, content: Any) -> dict[str, str]:
    if isinstance(content, str):
        return {"name": name, "text": content}
    if isinstance(content, os.PathLike):
        with open(content, "rb") as file:
            content = file.read()
    elif hasattr(content, "read"):
        content = content.read()
    if isinstance(content, str):
        return {"name": name, "text": content}
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f"files[{name!r}]: give str, bytes, a Path or an open file")
    return {"name": name, "data": base64.b64encode(content).decode()}
