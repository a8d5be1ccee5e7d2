"""The host, as the daemon describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

from .._core.reading import Reader
from .session import LayerReport, Limit


@dataclass(frozen=True)
class Pool:
    """Sessions that are kept ready in an environment."""

    ready: int
    """Those that are ready now."""
    low: int
    """If fewer are left, more are started."""
    high: int
    """Until there are this many."""

    @classmethod
    def _read(cls, reader: Reader) -> Pool:
        return cls(reader.integer("ready"), reader.integer("low"), reader.integer("high"))


@dataclass(frozen=True)
class Template:
    """A warmed process that kernels are forked from."""

    state: str
    """`off`, `building`, `ready`, or `unavailable`: kernels are executed then."""
    reason: Optional[str] = None
    """Why it is unavailable; None if it is not."""

    @classmethod
    def _read(cls, reader: Reader) -> Template:
        return cls(reader.text("state"), reader.optional_text("reason"))


@dataclass(frozen=True)
class Environment:
    """An interpreter that sessions can have."""

    name: str
    """Its name."""
    interpreter: str
    """Its path on the host."""
    python_version: str
    """Such as `3.11.2`."""
    pool: Optional[Pool] = None
    """The sessions that are kept ready in it, if any are."""
    template: Optional[Template] = None
    """What its kernels are forked from, if the daemon tells."""

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
        )


@dataclass(frozen=True)
class MemoryCapacity:
    """Memory for more sessions."""

    available_bytes: Optional[int] = None
    """What sessions may still take, if the host tells."""
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
    """How much of everything there is."""

    sessions: int
    """Sessions now."""
    max_sessions: Limit
    """Sessions at most."""
    queue_depth: int
    """Executions that may wait in each session."""
    cpus: int
    """CPUs that the daemon may use."""
    memory: MemoryCapacity = MemoryCapacity()
    """Memory for more sessions."""

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
    """A host and what it offers."""

    version: str
    """Vivarium's version."""
    kernel: str
    """The kernel's release."""
    mode: str
    """How much sandbox there has to be: `auto`, `on` or `off`."""
    layers: tuple[LayerReport, ...]
    """Every layer of the sandbox, as a trial session reported it."""
    environments: tuple[Environment, ...]
    """The environments."""
    capacity: Capacity
    """How much of everything there is."""

    @classmethod
    def _read(cls, reader: Reader) -> HostInfo:
        return cls(
            version=reader.required_text("version"),
            kernel=reader.text("kernel"),
            mode=reader.text("mode"),
            layers=tuple(LayerReport._read(layer) for layer in reader.objects("layers")),
            environments=tuple(Environment._read(one) for one in reader.objects("environments")),
            capacity=Capacity._read(reader.object("capacity")),
        )
