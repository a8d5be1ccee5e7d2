"""Images, representations and files that code produced.

All of it comes from tenant code. Nothing here runs it, renders it or trusts its names.
"""

from __future__ import annotations

import base64
import builtins
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from .._core.reading import Reader
from .._notebook import safe_bundle
from ..errors import OutputFileError, UnexpectedAnswer
from .names import Format

if TYPE_CHECKING:
    import PIL.Image

StrPath = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Image:
    """An image, such as a figure of matplotlib."""

    mime_type: str
    """Such as `image/png`."""
    data: str = field(repr=False)
    """Base64, as received; empty if only sizes were asked for."""
    size_bytes: int = 0
    """Size, decoded."""

    @property
    def bytes(self) -> builtins.bytes:
        """The decoded bytes."""
        return decode(self.data, "an image")

    def pil(self) -> PIL.Image.Image:
        """Opens the image with Pillow, which must be installed.

        This decodes untrusted data in this process.
        """
        import PIL.Image  # noqa: PLC0415  (only who asks for it needs it)

        return PIL.Image.open(io.BytesIO(self.bytes))

    def save(self, path: StrPath) -> Path:
        """Writes the bytes to a local file."""
        return _save(path, self.bytes)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return safe_bundle({"text/plain": repr(self), self.mime_type: self.data})

    @classmethod
    def _read(cls, reader: Reader) -> Image:
        return cls(
            reader.required_text("mime_type"), reader.text("data"), reader.integer("size_bytes")
        )


def raster(mime: Mapping[str, Any]) -> Optional[Image]:
    """Returns the image among representations."""
    for mime_type in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        if isinstance(mime.get(mime_type), str):
            return Image(mime_type, mime[mime_type])
    return None


@dataclass(frozen=True)
class Representations:
    """Representations of one object by MIME type: text as it is, everything else in base64."""

    mime: Mapping[str, str] = field(repr=False)
    """Content by type, such as `text/plain`, `text/html` or `image/png`."""

    @property
    def text(self) -> Optional[str]:
        """The plain text form."""
        return self.mime.get("text/plain")

    @property
    def html(self) -> Optional[str]:
        """The HTML form. Untrusted: render it only where its scripts can do no harm."""
        return self.mime.get("text/html")

    @property
    def image(self) -> Optional[Image]:
        """The image form."""
        return raster(self.mime)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return safe_bundle({"text/plain": repr(self), **self.mime})


@dataclass(frozen=True)
class DisplayData(Representations):
    """An object passed to `display()`."""

    id: Optional[str] = None
    """The `display_id`, if the code gave one."""
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    """Size of each representation, decoded, in bytes, also of those that were not sent."""

    @classmethod
    def _read(cls, reader: Reader) -> DisplayData:
        return cls(reader.texts("mime"), reader.optional_text("id"), reader.sizes("sizes"))


@dataclass(frozen=True)
class Value(Representations):
    """The value of a final expression."""

    repr: str = ""
    type: str = ""
    """The class's name."""
    size_bytes: int = 0
    """Size of the repr."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Size of each representation, decoded, in bytes, also of those that were not sent."""

    def __str__(self) -> str:
        return self.repr

    @classmethod
    def _read(cls, reader: Reader) -> Value:
        return cls(
            reader.texts("mime"),
            reader.text("repr"),
            reader.text("type"),
            reader.integer("size_bytes"),
            reader.sizes("sizes"),
        )


@dataclass(frozen=True)
class OutputFile:
    """A file requested in `outputs`."""

    name: str
    """Path relative to the working directory."""
    format: Format
    """How `content` is encoded: `text` or `base64`."""
    mime_type: str
    """The daemon's guess."""
    size_bytes: int
    error: Optional[str]
    """Why there is no content."""
    content: Optional[str] = field(repr=False)
    """As received: text or base64."""

    @property
    def bytes(self) -> builtins.bytes:
        """The content. Raises `OutputFileError` if there is none."""
        if self.content is None:
            raise OutputFileError(f"{self.name}: {self.error or 'the daemon sent no content'}")
        if self.format == "text":
            return self.content.encode()
        return decode(self.content, self.name)

    @property
    def text(self) -> str:
        """The content as UTF-8 with replacement. Raises `OutputFileError` if there is none."""
        return self.bytes.decode(errors="replace")

    def save(self, path: StrPath) -> Path:
        """Writes the content to a local file, or under its own name into a directory.

        Raises `OutputFileError` if there is no content.
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
    """A file that an execution created, changed or deleted."""

    name: str
    """Path relative to the working directory."""
    size_bytes: int
    deleted: bool = False
    """Whether it is gone. It may have been a directory that was moved away."""

    @classmethod
    def _read(cls, reader: Reader) -> ChangedFile:
        return cls(
            reader.required_text("name"), reader.integer("size_bytes"), reader.flag("deleted")
        )


def decode(text: str, what: str) -> bytes:
    """Decodes base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise UnexpectedAnswer(f"{what} is no base64: {error}") from error


def _save(path: StrPath, content: bytes) -> Path:
    target = Path(path)
    target.write_bytes(content)
    return target
