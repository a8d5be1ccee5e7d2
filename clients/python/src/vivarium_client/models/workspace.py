"""What stands in a session's working directory, and at a cursor in its code."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional

from .._core.reading import Reader


@dataclass(frozen=True)
class FileEntry:
    """What stands at a path."""

    path: str
    """Its path, relative to the working directory."""
    kind: str
    """`file`, `directory`, `link` or `other`."""
    size_bytes: int
    """Its size."""
    modified_at: Optional[datetime]
    """When it was last modified."""
    mime_type: Optional[str]
    """Guessed by the daemon."""

    @classmethod
    def _read(cls, reader: Reader) -> FileEntry:
        return cls(
            path=reader.required_text("path"),
            kind=reader.text("kind"),
            size_bytes=reader.integer("size_bytes"),
            modified_at=reader.optional_time("modified_at"),
            mime_type=reader.optional_text("mime_type"),
        )


@dataclass(frozen=True)
class Completion:
    """What could stand in a place of the code."""

    text: str
    """It."""
    type: str
    """What it is, such as `function`."""

    @classmethod
    def _read(cls, reader: Reader) -> Completion:
        return cls(reader.required_text("text"), reader.text("type"))


@dataclass(frozen=True)
class Completions:
    """What could follow at the cursor: any of `matches` in place of `code[start:end]`."""

    matches: tuple[Completion, ...]
    """The completions."""
    start: int
    """Where they begin, in characters."""
    end: int
    """Where what they replace ends, in characters."""

    @classmethod
    def _read(cls, reader: Reader) -> Completions:
        matches = tuple(Completion._read(match) for match in reader.objects("matches"))
        return cls(matches, reader.integer("start"), reader.integer("end"))


@dataclass(frozen=True)
class Inspection:
    """What stands at the cursor."""

    found: bool
    """Whether anything does; if not, the rest is empty."""
    name: str
    """Its name."""
    type: str
    """Its class's name."""
    signature: str
    """How to call it."""
    docstring: str
    """What it says of itself."""
    repr: str
    """`repr()` of it."""
    source: Optional[str]
    """Its source, where there is one."""

    @classmethod
    def _read(cls, reader: Reader) -> Inspection:
        return cls(
            found=reader.flag("found"),
            name=reader.text("name"),
            type=reader.text("type"),
            signature=reader.text("signature"),
            docstring=reader.text("docstring"),
            repr=reader.text("repr"),
            source=reader.optional_text("source"),
        )
