"""Environments that are built: packages on top of a configured environment's interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional

from .._core.reading import Reader


@dataclass(frozen=True)
class BuildInfo:
    """The last build of an environment."""

    name: str
    """Of the environment."""
    state: str
    """`building`, `succeeded` or `failed`."""
    started_at: datetime
    ended_at: Optional[datetime]
    error: Optional[str]
    """Why it failed. The log has more."""
    artefact: Optional[str]
    """SHA-256 of what was built."""

    @classmethod
    def _read(cls, reader: Reader) -> BuildInfo:
        return cls(
            name=reader.required_text("name"),
            state=reader.required_text("state"),
            started_at=reader.time("started_at"),
            ended_at=reader.optional_time("ended_at"),
            error=reader.optional_text("error"),
            artefact=reader.optional_text("artefact"),
        )


@dataclass(frozen=True)
class BuiltEnvironment:
    name: str
    tenant: Optional[str]
    """None if it is the operator's, for all tenants."""
    artefact: str
    """SHA-256 over paths, modes and contents of its files."""
    base: str
    """The configured environment whose interpreter it uses."""
    python_version: str
    hash_locked: bool
    """Whether it has the files of wheels that were given by their hashes, and nothing else."""
    built_at: datetime
    size_bytes: int
    inodes: int
    in_use: bool
    """Whether a session has it now."""
    distributions: tuple[str, ...]
    """What is installed, such as `six-1.16.0`."""

    @classmethod
    def _read(cls, reader: Reader) -> BuiltEnvironment:
        return cls(
            name=reader.required_text("name"),
            tenant=reader.optional_text("tenant"),
            artefact=reader.text("artefact"),
            base=reader.text("base"),
            python_version=reader.text("python_version"),
            hash_locked=reader.flag("hash_locked"),
            built_at=reader.time("built_at"),
            size_bytes=reader.integer("size_bytes"),
            inodes=reader.integer("inodes"),
            in_use=reader.flag("in_use"),
            distributions=reader.strings("distributions"),
        )
