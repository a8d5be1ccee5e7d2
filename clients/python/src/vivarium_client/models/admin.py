"""The administration of a daemon."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional

from .._core.reading import Reader
from .host import MemoryCapacity, Template
from .session import Limit


@dataclass(frozen=True)
class PauseInfo:
    """Since when new work is refused, and why."""

    since: datetime
    reason: Optional[str] = None

    @classmethod
    def _read(cls, reader: Reader) -> PauseInfo:
        return cls(reader.time("since"), reader.optional_text("reason"))


@dataclass(frozen=True)
class PauseReply:
    """What is paused now."""

    paused: Optional[PauseInfo]
    """Of all tenants, if they are."""
    paused_tenants: dict[str, PauseInfo]
    draining: bool
    """Whether the daemon takes no new work until it is started again."""
    persistent: bool
    """Whether this is on disk, so that it outlasts a restart."""

    @classmethod
    def _read(cls, reader: Reader) -> PauseReply:
        return cls(
            _pause(reader, "paused"),
            _pauses(reader),
            reader.flag("draining"),
            reader.flag("persistent"),
        )


@dataclass(frozen=True)
class DrainReply:
    """A drain has begun, or had before."""

    sessions: int
    """Sessions that are left."""
    exit: bool

    @classmethod
    def _read(cls, reader: Reader) -> DrainReply:
        return cls(reader.integer("sessions"), reader.flag("exit"))


@dataclass(frozen=True)
class EnvironmentStatus:
    name: str
    template: Template
    pooled: int
    """Sessions ready in the pools of all tenants."""
    layers: dict[str, tuple[str, ...]]
    """Layers of the sandbox by status."""

    @classmethod
    def _read(cls, reader: Reader) -> EnvironmentStatus:
        layers = reader.object("layers")
        return cls(
            reader.text("name"),
            Template._read(reader.object("template")),
            reader.integer("pooled"),
            {status: layers.strings(status) for status in layers.fields},
        )


@dataclass(frozen=True)
class LedgerInfo:
    """The ledger of what tenants used."""

    state: str
    """`kept`, `failing` or `off`."""
    flushed_at: Optional[datetime]
    error: Optional[str]
    damaged: tuple[str, ...]
    """Files that were put aside at start."""

    @classmethod
    def _read(cls, reader: Reader) -> LedgerInfo:
        return cls(
            reader.text("state"),
            reader.optional_time("flushed_at"),
            reader.optional_text("error"),
            reader.strings("damaged"),
        )


@dataclass(frozen=True)
class FailedReload:
    """A reload that was refused: the configuration that was there before still holds."""

    at: datetime
    error: str
    """What is wrong, with file and line."""

    @classmethod
    def _read(cls, reader: Reader) -> FailedReload:
        return cls(reader.time("at"), reader.text("error"))


@dataclass(frozen=True)
class TenantSourcesInfo:
    """Tenants from a directory or a command, when they were last read."""

    state: str
    """`ok`, or `failing`: the tenants that there are stay."""
    read_at: datetime
    error: Optional[str]
    """What is wrong, with file and line."""

    @classmethod
    def _read(cls, reader: Reader) -> TenantSourcesInfo:
        return cls(reader.text("state"), reader.time("read_at"), reader.optional_text("error"))


@dataclass(frozen=True)
class AdminStatus:
    """How the daemon does."""

    version: str
    pid: int
    started_at: datetime
    uptime_seconds: int
    mode: str
    """`auto`, `on` or `off`."""
    draining: bool
    paused: Optional[PauseInfo]
    paused_tenants: dict[str, PauseInfo]
    sessions: dict[str, int]
    """By state."""
    queued: int
    tenants: int
    failed_reload: Optional[FailedReload]
    """None after a reload that did not fail."""
    tenant_sources: Optional[TenantSourcesInfo]
    """None if all tenants are in the configuration file."""
    environments: tuple[EnvironmentStatus, ...]
    memory: MemoryCapacity
    buffered_bytes: int
    max_buffered_bytes: int
    usage: LedgerInfo

    @classmethod
    def _read(cls, reader: Reader) -> AdminStatus:
        failed = reader.optional_object("failed_reload")
        sources = reader.optional_object("tenant_sources")
        return cls(
            version=reader.text("version"),
            pid=reader.integer("pid"),
            started_at=reader.time("started_at"),
            uptime_seconds=reader.integer("uptime_seconds"),
            mode=reader.text("mode"),
            draining=reader.flag("draining"),
            paused=_pause(reader, "paused"),
            paused_tenants=_pauses(reader),
            sessions=reader.sizes("sessions"),
            queued=reader.integer("queued"),
            tenants=reader.integer("tenants"),
            failed_reload=None if failed is None else FailedReload._read(failed),
            tenant_sources=None if sources is None else TenantSourcesInfo._read(sources),
            environments=tuple(map(EnvironmentStatus._read, reader.objects("environments"))),
            memory=MemoryCapacity._read(reader.object("memory")),
            buffered_bytes=reader.integer("buffered_bytes"),
            max_buffered_bytes=reader.integer("max_buffered_bytes"),
            usage=LedgerInfo._read(reader.object("usage")),
        )


@dataclass(frozen=True)
class TokenInfo:
    """A token as it is configured, which nobody here knows."""

    hash_prefix: str
    name: Optional[str]
    scopes: tuple[str, ...]
    expires: Optional[datetime]
    expired: bool

    @classmethod
    def _read(cls, reader: Reader) -> TokenInfo:
        return cls(
            reader.text("hash_prefix"),
            reader.optional_text("name"),
            reader.strings("scopes"),
            reader.optional_time("expires"),
            reader.flag("expired"),
        )


@dataclass(frozen=True)
class AdminTenant:
    """A tenant. A figure is None without the cgroup controller that it needs."""

    name: str
    configured: bool
    """False if it was removed and still has sessions."""
    sessions: int
    max_sessions: Limit
    running: int
    queued: int
    cpu_seconds: Optional[float]
    memory_bytes: Optional[int]
    processes: Optional[int]
    paused: Optional[PauseInfo]
    tokens: tuple[TokenInfo, ...]

    @classmethod
    def _read(cls, reader: Reader) -> AdminTenant:
        max_sessions: Any = reader.fields.get("max_sessions", "unlimited")
        has_cpu = reader.fields.get("cpu_seconds") is not None
        return cls(
            name=reader.text("name"),
            configured=reader.flag("configured"),
            sessions=reader.integer("sessions"),
            max_sessions=max_sessions,
            running=reader.integer("running"),
            queued=reader.integer("queued"),
            cpu_seconds=reader.number("cpu_seconds") if has_cpu else None,
            memory_bytes=reader.optional_integer("memory_bytes"),
            processes=reader.optional_integer("processes"),
            paused=_pause(reader, "paused"),
            tokens=tuple(map(TokenInfo._read, reader.objects("tokens"))),
        )


@dataclass(frozen=True)
class UsageRow:
    """What a tenant used in a period."""

    tenant: str
    start: datetime
    end: datetime
    cpu_seconds: float
    memory_byte_seconds: int
    executions: int
    sessions: int
    egress_bytes: int
    cpu_source: Optional[str]
    """`cgroup`, `executions` or `mixed`; None if nothing was measured."""
    memory_source: Optional[str]

    @classmethod
    def _read(cls, reader: Reader) -> UsageRow:
        return cls(
            tenant=reader.text("tenant"),
            start=reader.time("start"),
            end=reader.time("end"),
            cpu_seconds=reader.number("cpu_seconds"),
            memory_byte_seconds=reader.integer("memory_byte_seconds"),
            executions=reader.integer("executions"),
            sessions=reader.integer("sessions"),
            egress_bytes=reader.integer("egress_bytes"),
            cpu_source=reader.optional_text("cpu_source"),
            memory_source=reader.optional_text("memory_source"),
        )


def _pause(reader: Reader, name: str) -> Optional[PauseInfo]:
    paused = reader.optional_object(name)
    return None if paused is None else PauseInfo._read(paused)


def _pauses(reader: Reader) -> dict[str, PauseInfo]:
    tenants = reader.object("paused_tenants")
    return {name: PauseInfo._read(tenants.object(name)) for name in tenants.fields}
