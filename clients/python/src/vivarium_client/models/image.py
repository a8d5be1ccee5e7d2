"""Images of sessions: suspended ones, and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional

from .._core.reading import Reader


@dataclass(frozen=True)
class SessionImage:
    """What there is of a suspended session on disk."""

    size_bytes: int
    """Memory and files, compressed."""
    suspended_at: datetime
    expires_at: Optional[datetime]
    """When the session is deleted unless it is resumed before; None if never."""
    auto_resume: bool
    """Whether calls resume the session, or `resume` alone."""

    @classmethod
    def _read(cls, reader: Reader) -> SessionImage:
        return cls(
            reader.integer("size_bytes"),
            reader.time("suspended_at"),
            reader.optional_time("expires_at"),
            reader.flag("auto_resume"),
        )


@dataclass(frozen=True)
class StoredImage:
    """The image of a suspended session, by itself."""

    session_id: str
    environment: str
    template: str
    """SHA-256 of the memory of the template that the session was suspended under, in hex."""
    executions: int
    """The number of the session's last execution."""
    size_bytes: int
    """Memory and files, compressed."""
    suspended_at: datetime
    expires_at: Optional[datetime]
    """When the session is deleted unless it is resumed before; None if never."""
    auto_resume: bool
    """Whether calls resume the session, or `resume` alone."""

    @classmethod
    def _read(cls, reader: Reader) -> StoredImage:
        return cls(
            reader.required_text("session_id"),
            reader.text("environment"),
            reader.text("template"),
            reader.integer("executions"),
            reader.integer("size_bytes"),
            reader.time("suspended_at"),
            reader.optional_time("expires_at"),
            reader.flag("auto_resume"),
        )


@dataclass(frozen=True)
class Imageable:
    """Whether a session can be suspended now."""

    imageable: bool
    reasons: tuple[str, ...]
    """What is in the way, and what to do about it; empty if nothing is."""

    @classmethod
    def _read(cls, reader: Reader) -> Imageable:
        return cls(reader.flag("imageable"), reader.strings("reasons"))


@dataclass(frozen=True)
class Checkpoint:
    """A state of a session that it can be rolled back to."""

    name: str
    created_at: datetime
    size_bytes: int
    """Memory and files, compressed."""
    executions: int
    """The number of the last execution before it."""

    @classmethod
    def _read(cls, reader: Reader) -> Checkpoint:
        return cls(
            reader.required_text("name"),
            reader.time("created_at"),
            reader.integer("size_bytes"),
            reader.integer("executions"),
        )
