"""Sessions and their limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Optional, TypedDict, Union

from .._core.reading import Reader
from .home import VolumeMount
from .image import SessionImage
from .names import (
    HomeKind,
    KernelOrigin,
    LayerStatus,
    Network,
    PolicySource,
    ResetScope,
    SessionState,
)

Limit = Union[int, Literal["unlimited"]]
"""A positive integer or `"unlimited"`."""


class Limits(TypedDict, total=False):
    """Limits of a session. A request may only tighten the configured ones."""

    max_memory_mb: Limit
    """Memory of the whole session, in MiB."""
    max_cpu_secs: Limit
    """CPU time of one execution, in seconds."""
    max_procs: Limit
    """Processes and threads."""
    max_open_fds: Limit
    """Open file descriptors per process."""
    max_file_size_mb: Limit
    """Largest file, in MiB."""
    max_disk_mb: Limit
    """Working directory and temporary files together, in MiB."""
    max_inodes: Limit
    """Files, directories and links together."""
    cpu_cores: Union[float, Literal["unlimited"]]
    """CPU cores, such as 0.5."""
    max_output_bytes: Limit
    """Bytes kept of each of stdout and stderr, per execution."""
    max_result_bytes: Limit
    """Bytes of results, displays and files, per execution."""


@dataclass(frozen=True)
class LayerReport:
    """The state of one sandbox layer, as read back from inside the session."""

    layer: str
    """Such as `seccomp`."""
    status: LayerStatus
    """`enforced`, `partial`, `unavailable` or `off`."""
    detail: str
    """What it does, or what is missing."""
    fix: str
    """What an operator can do; may be empty."""

    @classmethod
    def _read(cls, reader: Reader) -> LayerReport:
        return cls(
            reader.required_text("layer"),
            reader.required_text("status"),
            reader.text("detail"),
            reader.text("fix"),
        )


@dataclass(frozen=True)
class SessionUsage:
    """Resources that a session has used."""

    cpu_ms: float
    memory_bytes: Optional[int]
    """Memory now; None if the host does not say."""
    memory_peak_bytes: int
    """Peak memory of the session, or else of any execution."""
    executions: int
    """Executions that have ended."""
    queued: int
    """Executions waiting."""
    processes: Optional[int]
    """Only from `info()`."""
    disk_bytes: Optional[int]
    """Working directory and temporary files; only from `info()`."""
    agent_pss_bytes: Optional[int] = None
    """Proportional set size of the agent; only from `info()`."""
    kernel_pss_bytes: Optional[int] = None
    """Proportional set size of the kernel; only from `info()`."""
    processes_peak: Optional[int] = None
    """Most processes and threads of the code at one time; None if the host does not say."""
    io_read_bytes: Optional[int] = None
    """Bytes read from disks; None without an io controller."""
    io_write_bytes: Optional[int] = None
    """Bytes written to disks; None without an io controller."""
    egress_in_bytes: Optional[int] = None
    """Bytes that came through the egress gate, of connections that have ended; None unless the
    network is `trusted`."""
    egress_out_bytes: Optional[int] = None
    """Bytes that went out through it."""

    @classmethod
    def _read(cls, reader: Reader) -> SessionUsage:
        return cls(
            cpu_ms=reader.number("cpu_ms"),
            memory_bytes=reader.optional_integer("memory_bytes"),
            memory_peak_bytes=reader.integer("memory_peak_bytes"),
            executions=reader.integer("executions"),
            queued=reader.integer("queued"),
            processes=reader.optional_integer("processes"),
            disk_bytes=reader.optional_integer("disk_bytes"),
            agent_pss_bytes=reader.optional_integer("agent_pss_bytes"),
            kernel_pss_bytes=reader.optional_integer("kernel_pss_bytes"),
            processes_peak=reader.optional_integer("processes_peak"),
            io_read_bytes=reader.optional_integer("io_read_bytes"),
            io_write_bytes=reader.optional_integer("io_write_bytes"),
            egress_in_bytes=reader.optional_integer("egress_in_bytes"),
            egress_out_bytes=reader.optional_integer("egress_out_bytes"),
        )


@dataclass(frozen=True)
class PolicyEntry:
    """A limit, time or quota that holds."""

    key: str
    """The key of the daemon's configuration, such as `sandbox.max_memory_mb`."""
    value: Union[int, float, str, tuple[str, ...]]
    """As it is configured."""
    source: PolicySource
    """Where it comes from."""

    @classmethod
    def _read(cls, reader: Reader) -> PolicyEntry:
        value: Any = reader.fields.get("value")
        value = tuple(value) if isinstance(value, list) else value
        return cls(reader.required_text("key"), value, reader.text("source"))


@dataclass(frozen=True)
class SessionInfo:
    id: str
    tenant: str
    environment: str
    state: SessionState
    """`starting`, `idle`, `running`, `interrupting`, `replacing`, `suspended` or `closed`."""
    kernel_origin: Optional[KernelOrigin]
    """`forked` from a template, `executed`, or `executed_for_packages` that a fork would not see;
    None before there is a kernel."""
    protection: tuple[LayerReport, ...]
    """Every sandbox layer, as read back from inside the session."""
    limits: Limits
    network: Union[Network, str]
    """`none`, `loopback`, `trusted` or `full`."""
    usage: SessionUsage
    created_at: datetime
    last_used_at: datetime
    """When the session last ran code or was kept alive."""
    expires_at: datetime
    """When the session is deleted unless it is used before."""
    metadata: Mapping[str, str]
    idle_timeout_ms: Optional[int] = None
    """Milliseconds without use after which the session is deleted."""
    deadline: Optional[datetime] = None
    """When the session is deleted, whatever it does; None if never."""
    running: tuple[str, ...] = ()
    """The ids of the executions that run now."""
    home: Union[HomeKind, str] = "off"
    """Whose home it has at `/home/sandbox`: `off`, `session` or `tenant`."""
    volumes: tuple[VolumeMount, ...] = ()
    egress_allow: Optional[tuple[str, ...]] = None
    """Where it may connect to; None unless its network is `trusted`."""
    image: Optional[SessionImage] = None
    """What there is of it on disk; None unless it is suspended."""
    policy: tuple[PolicyEntry, ...] = ()
    """What holds for the session and its tenant, and where it comes from; only from `info()`."""

    @classmethod
    def _read(cls, reader: Reader) -> SessionInfo:
        limits: Any = reader.object("limits").fields
        image = reader.optional_object("image")
        has_egress = reader.fields.get("egress_allow") is not None
        return cls(
            id=reader.required_text("id"),
            tenant=reader.text("tenant"),
            environment=reader.text("environment"),
            state=reader.text("state"),
            kernel_origin=reader.optional_text("kernel_origin"),
            protection=tuple(LayerReport._read(layer) for layer in reader.objects("protection")),
            limits=limits,
            network=reader.text("network"),
            usage=SessionUsage._read(reader.object("usage")),
            created_at=reader.time("created_at"),
            last_used_at=reader.time("last_used_at"),
            expires_at=reader.time("expires_at"),
            metadata=reader.texts("metadata"),
            idle_timeout_ms=reader.optional_integer("idle_timeout_ms"),
            deadline=reader.optional_time("deadline"),
            running=reader.strings("running"),
            home=reader.optional_text("home") or "off",
            volumes=tuple(_volume(volume) for volume in reader.objects("volumes")),
            egress_allow=reader.strings("egress_allow") if has_egress else None,
            image=None if image is None else SessionImage._read(image),
            policy=tuple(PolicyEntry._read(entry) for entry in reader.objects("policy")),
        )


def _volume(reader: Reader) -> VolumeMount:
    return {
        "name": reader.text("name"),
        "path": reader.text("path"),
        "read_only": reader.flag("read_only"),
    }


@dataclass(frozen=True)
class ContextInfo:
    """A context of a session."""

    id: str
    """`main` is the one that every session has."""
    session_id: str
    state: SessionState
    """`starting`, `idle`, `running`, `interrupting`, `replacing` or `closed`."""
    kernel_origin: Optional[KernelOrigin] = None
    """`forked` from a template, `executed`, or `executed_for_packages` that a fork would not see;
    None before there is a kernel."""
    generation: Optional[int] = None
    """Counts its kernels from 1; None before there is one."""
    running: Optional[str] = None
    """The id of the execution that its kernel runs; None if it runs none."""
    queued: int = 0
    """Executions waiting for it."""

    @classmethod
    def _read(cls, reader: Reader) -> ContextInfo:
        return cls(
            id=reader.required_text("id"),
            session_id=reader.text("session_id"),
            state=reader.text("state"),
            kernel_origin=reader.optional_text("kernel_origin"),
            generation=reader.optional_integer("generation"),
            running=reader.optional_text("running"),
            queued=reader.integer("queued"),
        )


@dataclass(frozen=True)
class Preview:
    """Where a browser sees a server in a session."""

    url: str
    """Opens the preview, for whoever has it."""
    expires_at: datetime
    """When the URL, and the cookie that it sets, stop working."""

    @classmethod
    def _read(cls, reader: Reader) -> Preview:
        return cls(reader.required_text("url"), reader.time("expires_at"))


@dataclass(frozen=True)
class Interrupt:
    """The result of an interrupt."""

    execution_id: Optional[str]
    """None if nothing was running."""
    interrupted: bool
    """Whether the execution has ended."""
    detail: str

    @classmethod
    def _read(cls, reader: Reader) -> Interrupt:
        return cls(
            reader.optional_text("execution_id"), reader.flag("interrupted"), reader.text("detail")
        )


@dataclass(frozen=True)
class Reset:
    """The result of a reset."""

    context: str
    """The context whose kernel was replaced."""
    ended_execution_id: Optional[str]
    """The execution that the reset ended there; None if nothing was running."""
    scope: ResetScope
    """`context`: only this context was reset. `session`: every process of the session has ended,
    since without the cgroup layer they are not told apart."""

    @classmethod
    def _read(cls, reader: Reader) -> Reset:
        return cls(
            reader.text("context"),
            reader.optional_text("ended_execution_id"),
            reader.text("scope"),
        )
