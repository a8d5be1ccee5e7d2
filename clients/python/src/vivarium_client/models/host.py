"""The host, as the daemon describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._core.reading import Reader
from .session import LayerReport, Limit


@dataclass(frozen=True)
class Environment:
    """An interpreter that sessions can have."""

    name: str
    """Its name."""
    interpreter: str
    """Its path on the host."""
    python_version: str
    """Such as `3.11.2`."""

    @classmethod
    def _read(cls, reader: Reader) -> Environment:
        return cls(
            reader.required_text("name"), reader.text("interpreter"), reader.text("python_version")
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

    @classmethod
    def _read(cls, reader: Reader) -> Capacity:
        max_sessions: Any = reader.fields.get("max_sessions", "unlimited")
        return cls(
            reader.integer("sessions"),
            max_sessions,
            reader.integer("queue_depth"),
            reader.integer("cpus"),
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
