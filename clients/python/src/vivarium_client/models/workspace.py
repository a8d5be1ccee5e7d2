"""Directory entries, and answers about code that is being written."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional

from .._core.reading import Reader
from .names import CodeStatus, FileKind


@dataclass(frozen=True)
class FileEntry:
    """A file, directory or link."""

    path: str
    """Path relative to the working directory; absolute for files in `/tmp`."""
    kind: FileKind
    """`file`, `directory`, `link` or `other`."""
    size_bytes: int
    modified_at: Optional[datetime]
    mode: str
    """Permissions in octal, such as `0644`."""
    mime_type: Optional[str]
    """The daemon's guess."""

    @classmethod
    def _read(cls, reader: Reader) -> FileEntry:
        return cls(
            path=reader.required_text("path"),
            kind=reader.text("kind"),
            size_bytes=reader.integer("size_bytes"),
            modified_at=reader.optional_time("modified_at"),
            mode=reader.text("mode"),
            mime_type=reader.optional_text("mime_type"),
        )


@dataclass(frozen=True)
class FileEvent:
    """A change below a directory that is watched."""

    type: str
    """`created`, `modified`, `deleted`, `moved`, or `overflow`: changes were missed, look again."""
    path: str
    """Path relative to the working directory; absolute for files in `/tmp`."""
    moved_from: Optional[str]
    """The path before; only of `moved`."""
    directory: bool
    """Whether it is a directory."""

    @classmethod
    def _read(cls, event: str, reader: Reader) -> FileEvent:
        return cls(
            type=event,
            path=reader.text("path"),
            moved_from=reader.optional_text("from"),
            directory=reader.flag("directory"),
        )


@dataclass(frozen=True)
class Completion:
    """A completion."""

    text: str
    type: str
    """Such as `function`; may be empty."""

    @classmethod
    def _read(cls, reader: Reader) -> Completion:
        return cls(reader.required_text("text"), reader.text("type"))


@dataclass(frozen=True)
class Completions:
    """Completions at the cursor: each of `matches` can replace `code[start:end]`."""

    matches: tuple[Completion, ...]
    start: int
    """In characters."""
    end: int
    """In characters."""

    @classmethod
    def _read(cls, reader: Reader) -> Completions:
        matches = tuple(Completion._read(match) for match in reader.objects("matches"))
        return cls(matches, reader.integer("start"), reader.integer("end"))


@dataclass(frozen=True)
class Completeness:
    """Whether code can be executed."""

    status: CodeStatus
    """`complete`, `incomplete` (needs another line) or `invalid` (no line makes it Python)."""
    indent: str
    """The indentation of the next line of incomplete code. From tenant code."""

    @classmethod
    def _read(cls, reader: Reader) -> Completeness:
        return cls(reader.required_text("status"), reader.text("indent"))


@dataclass(frozen=True)
class Inspection:
    """The object at the cursor. All of it comes from tenant code."""

    found: bool
    """If False, the rest is empty."""
    name: str
    type: str
    """The class's name."""
    signature: str
    docstring: str
    repr: str
    source: Optional[str]
    """None if there is none."""

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
