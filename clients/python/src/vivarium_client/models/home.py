"""Homes and volumes: files that outlive sessions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional, TypedDict, Union

from .._core.reading import Reader
from .names import HomeKind


class _VolumeName(TypedDict):
    name: str


class VolumeMount(_VolumeName, total=False):
    """A volume of a session."""

    path: str
    """Where it appears, beneath `/mnt`; by default `/mnt/NAME`."""
    read_only: bool
    """Whether the session can only read it. One session at a time can write to it."""


@dataclass(frozen=True)
class Storage:
    """What a home or volume takes of the disk."""

    created_at: datetime
    last_used_at: datetime
    """When a session last had it."""
    in_use: bool
    """Whether a session has it now."""
    used_bytes: Optional[int]
    """As last measured; None if it was not yet."""
    used_inodes: Optional[int]
    """Files, directories and links, as last measured."""
    max_bytes: Optional[int]
    """None is no maximum."""
    max_inodes: Optional[int]

    @classmethod
    def _read(cls, reader: Reader) -> Storage:
        return cls(
            created_at=reader.time("created_at"),
            last_used_at=reader.time("last_used_at"),
            in_use=reader.flag("in_use"),
            used_bytes=reader.optional_integer("used_bytes"),
            used_inodes=reader.optional_integer("used_inodes"),
            max_bytes=reader.optional_integer("max_bytes"),
            max_inodes=reader.optional_integer("max_inodes"),
        )


@dataclass(frozen=True)
class HomeInfo:
    id: str
    """The id of its sessions, or `@tenant`."""
    kind: Union[HomeKind, str]
    """`session` or `tenant`."""
    storage: Storage

    @classmethod
    def _read(cls, reader: Reader) -> HomeInfo:
        storage = Storage._read(reader.object("storage"))
        return cls(reader.required_text("id"), reader.text("kind"), storage)


@dataclass(frozen=True)
class VolumeInfo:
    name: str
    storage: Storage

    @classmethod
    def _read(cls, reader: Reader) -> VolumeInfo:
        storage = Storage._read(reader.object("storage"))
        return cls(reader.required_text("name"), storage)
