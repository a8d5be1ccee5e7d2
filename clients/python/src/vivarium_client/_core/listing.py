"""Lists that come in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Optional, TypeVar

from ..models import FileEntry, SessionInfo
from .reading import Reader

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list."""

    entries: list[T]
    next: Optional[str]
    """What to give as `after` for the next part; None if this was the last."""


def session_page(reader: Reader) -> Page[SessionInfo]:
    """A part of the list of sessions."""
    entries = [SessionInfo._read(session) for session in reader.objects("sessions")]
    return Page(entries, reader.optional_text("next"))


def file_page(reader: Reader) -> Page[FileEntry]:
    """A part of the list of files."""
    entries = [FileEntry._read(entry) for entry in reader.objects("entries")]
    return Page(entries, reader.optional_text("next"))
