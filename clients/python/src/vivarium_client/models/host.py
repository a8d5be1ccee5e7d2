"""What `GET /v1/host` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from .._core.reading import Reader
from .names import SandboxMode, TemplateState
from .session import LayerReport, Limit


@dataclass(frozen=True)
class Pool:
    """Sessions kept ready in an environment."""

    ready: int
    """Ready now."""
    low: int
    """If fewer than this are left, more are started."""
    high: int
    """How many there are after that."""

    @classmethod
    def _read(cls, reader: Reader) -> Pool:
        return cls(reader.integer("ready"), reader.integer("low"), reader.integer("high"))


@dataclass(frozen=True)
class Template:
    """A process that kernels are forked from."""

    state: TemplateState
    """`off`, `building`, `ready`, or `unavailable`, in which case kernels are executed."""
    reason: Optional[str] = None
    """Why it is unavailable, else None."""

    @classmethod
    def _read(cls, reader: Reader) -> Template:
        return cls(reader.text("state"), reader.optional_text("reason"))


@dataclass(frozen=True)
class Environment:
    """An interpreter that sessions can use, and the packages that are built on top of it."""

    name: str
    interpreter: str
    """Path on the host; of a built environment its base's, of runtime `wasm` its program."""
    python_version: str
    """Such as `3.11.2`."""
    pool: Optional[Pool] = None
    """Sessions kept ready, if any."""
    template: Optional[Template] = None
    """What kernels are forked from, if the daemon says."""
    base: Optional[str] = None
    """The configured environment that a built one is on top of; None of a configured one."""
    runtime: str = "cpython"
    """`cpython`, or `wasm`: CPython in a WebAssembly engine."""

    @classmethod
    def _read(cls, reader: Reader) -> Environment:
        pool = reader.optional_object("pool")
        template = reader.optional_object("template")
        return cls(
            reader.required_text("name"),
            reader.text("interpreter"),
            reader.text("python_version"),
            None if pool is None else Pool._read(pool),
            None if template is None else Template._read(template),
            reader.optional_text("base"),
            reader.optional_text("runtime") or "cpython",
        )


@dataclass(frozen=True)
class MemoryCapacity:
    available_bytes: Optional[int] = None
    """What sessions may still take, if the host says."""
    session_estimate_bytes: int = 0
    """What one more session of the default environment is expected to take."""

    @classmethod
    def _read(cls, reader: Reader) -> MemoryCapacity:
        return cls(
            reader.optional_integer("available_bytes"),
            reader.integer("session_estimate_bytes"),
        )


@dataclass(frozen=True)
class Capacity:
    sessions: int
    """The tenant's sessions now."""
    max_sessions: Limit
    """The tenant's maximum."""
    queue_depth: int
    """Executions that may wait in each session."""
    cpus: int
    """CPUs that the daemon may use."""
    memory: MemoryCapacity = MemoryCapacity()

    @classmethod
    def _read(cls, reader: Reader) -> Capacity:
        max_sessions: Any = reader.fields.get("max_sessions", "unlimited")
        return cls(
            reader.integer("sessions"),
            max_sessions,
            reader.integer("queue_depth"),
            reader.integer("cpus"),
            MemoryCapacity._read(reader.object("memory")),
        )


@dataclass(frozen=True)
class HostInfo:
    """What a host offers."""

    version: str
    kernel: str
    """Release of the host's Linux kernel."""
    mode: SandboxMode
    """`sandbox.mode`: `auto`, `on` or `off`."""
    layers: tuple[LayerReport, ...]
    """Every sandbox layer, as a trial session reported it."""
    environments: tuple[Environment, ...]
    capacity: Capacity
    installs_packages: bool = False
    """Whether a session that asks for no other network can install packages."""

    @classmethod
    def _read(cls, reader: Reader) -> HostInfo:
        return cls(
            version=reader.required_text("version"),
            kernel=reader.text("kernel"),
            mode=reader.text("mode"),
            layers=tuple(LayerReport._read(layer) for layer in reader.objects("layers")),
            environments=tuple(Environment._read(one) for one in reader.objects("environments")),
            capacity=Capacity._read(reader.object("capacity")),
            installs_packages=reader.flag("installs_packages"),
        )
