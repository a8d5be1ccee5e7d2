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


@dataclass(frozen=True)
class Variable:
    """A variable of a session, as its code calls it: untrusted."""

    name: str
    type: str
    """The name of its type."""

    @classmethod
    def _read(cls, reader: Reader) -> Variable:
        return cls(reader.required_text("name"), reader.text("type"))


@dataclass(frozen=True)
class CheckpointDiff:
    """Which variables are different at a checkpoint from those of another."""

    from_: Optional[str]
    """The other checkpoint; None if there is none, and all variables count as added."""
    to: str
    added: tuple[Variable, ...]
    removed: tuple[Variable, ...]
    changed: tuple[Variable, ...]
    """Those that are bound to another object, or to a number or text of another value, or whose
    list, dict, set or tuple has another length."""
    more: bool
    """Whether variables may be missing here."""

    @classmethod
    def _read(cls, reader: Reader) -> CheckpointDiff:
        def variables(name: str) -> tuple[Variable, ...]:
            return tuple(Variable._read(variable) for variable in reader.objects(name))

        return cls(
            reader.optional_text("from"),
            reader.required_text("to"),
            variables("added"),
            variables("removed"),
            variables("changed"),
            reader.flag("more"),
        )
