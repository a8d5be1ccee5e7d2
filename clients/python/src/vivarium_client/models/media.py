"""What code shows and gives back: images, representations, files.

All of it comes from tenant code. Nothing here runs it, renders it or believes its names.
"""

from __future__ import annotations

import base64
import binascii
import builtins
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from .._core.reading import Reader
from .._notebook import safe_bundle
from ..errors import OutputFileError, UnexpectedAnswer

if TYPE_CHECKING:
    import PIL.Image

StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Image:
    """An image, such as a figure of matplotlib."""

    mime_type: str
    """Such as `image/png`."""
    data: str = field(repr=False)
    """Its bytes in base64, as they came."""

    @property
    def bytes(self) -> builtins.bytes:
        """Its bytes."""
        return decode(self.data, "an image")

    def pil(self) -> PIL.Image.Image:
        """It as an image of Pillow, which has to be installed.

        This decodes what untrusted code made, in this process.
        """
        import PIL.Image  # noqa: PLC0415  (only who asks for it needs it)

        return PIL.Image.open(io.BytesIO(self.bytes))

    def save(self, path: StrPath) -> Path:
        """Writes its bytes to a file of this machine."""
        return _save(path, self.bytes)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return safe_bundle({"text/plain": repr(self), self.mime_type: self.data})

    @classmethod
    def _read(cls, reader: Reader) -> Image:
        return cls(reader.required_text("mime_type"), reader.text("data"))


@dataclass(frozen=True)
class Representations:
    """Representations of one object by MIME type: text as it is, everything else in base64."""

    mime: Mapping[str, str] = field(repr=False)
    """They, such as `text/plain`, `text/html`, `image/png`."""

    @property
    def text(self) -> Optional[str]:
        """It as plain text."""
        return self.mime.get("text/plain")

    @property
    def html(self) -> Optional[str]:
        """It as HTML. Untrusted: render it only where its scripts can do no harm."""
        return self.mime.get("text/html")

    @property
    def image(self) -> Optional[Image]:
        """It as an image, if it has a form that is one."""
        for mime_type in ("image/png", "image/jpeg", "image/gif", "image/webp"):
            if mime_type in self.mime:
                return Image(mime_type, self.mime[mime_type])
        return None

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return safe_bundle({"text/plain": repr(self), **self.mime})


@dataclass(frozen=True)
class DisplayData(Representations):
    """Something that `display()` was given."""

    id: Optional[str] = None
    """Its `display_id`, if the code gave it one."""

    @classmethod
    def _read(cls, reader: Reader) -> DisplayData:
        return cls(reader.texts("mime"), reader.optional_text("id"))


@dataclass(frozen=True)
class Value(Representations):
    """The value of a final expression."""

    repr: str = ""
    """`repr()` of it."""
    type: str = ""
    """Its class's name."""

    def __str__(self) -> str:
        return self.repr

    @classmethod
    def _read(cls, reader: Reader) -> Value:
        return cls(reader.texts("mime"), reader.text("repr"), reader.text("type"))


@dataclass(frozen=True)
class OutputFile:
    """A file that was asked for in `outputs`."""

    name: str
    """Its path, relative to the working directory."""
    format: str
    """How it came: `text` or `base64`."""
    mime_type: str
    """Guessed by the daemon."""
    size_bytes: int
    """Its size."""
    error: Optional[str]
    """Why there is no content."""
    content: Optional[str] = field(repr=False)
    """The content as it came: text, or base64."""

    @property
    def bytes(self) -> builtins.bytes:
        """Its content. Raises `OutputFileError` where there is none."""
        if self.content is None:
            raise OutputFileError(f"{self.name}: {self.error or 'the daemon sent no content'}")
        if self.format == "text":
            return self.content.encode()
        return decode(self.content, self.name)

    @property
    def text(self) -> str:
        """Its content as UTF-8, with replacement. Raises `OutputFileError` where there is none."""
        return self.bytes.decode(errors="replace")

    def save(self, path: StrPath) -> Path:
        """Writes its content to a file of this machine, or into a directory under its own name.

        Raises `OutputFileError` where there is no content.
        """
        target = Path(path)
        return _save(target / Path(self.name).name if target.is_dir() else target, self.bytes)

    @classmethod
    def _read(cls, reader: Reader) -> OutputFile:
        text, data = reader.optional_text("text"), reader.optional_text("data")
        return cls(
            name=reader.required_text("name"),
            format="base64" if text is None else "text",
            mime_type=reader.text("mime_type"),
            size_bytes=reader.integer("size_bytes"),
            error=reader.optional_text("error"),
            content=data if text is None else text,
        )


@dataclass(frozen=True)
class ChangedFile:
    """A file that an execution made or changed."""

    name: str
    """Its path, relative to the working directory."""
    size_bytes: int
    """Its size."""

    @classmethod
    def _read(cls, reader: Reader) -> ChangedFile:
        return cls(reader.required_text("name"), reader.integer("size_bytes"))


def decode(text: str, what: str) -> bytes:
    """Bytes that came as base64."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise UnexpectedAnswer(f"{what} is no base64: {error}") from error


def _save(path: StrPath, content: bytes) -> Path:
    target = Path(path)
    target.write_bytes(content)
    return target
