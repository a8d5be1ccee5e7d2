"""The events of a streamed execution. `number` counts from 1 within the execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Optional, Union

from .models.media import Representations, Value
from .models.names import CallOutcome, DisplayKind
from .models.outcome import ExceptionInfo, Outcome


@dataclass(frozen=True)
class AwaitingApproval:
    """The execution waits until somebody allows it. The first event, if it does."""

    number: int
    execution_id: str
    """Unique within the session."""
    session_id: str
    approval_id: str
    expires_at: datetime
    """When it is denied if nobody decides."""


@dataclass(frozen=True)
class Started:
    """The execution has started. The first event, if nobody has to allow it."""

    number: int
    execution_id: str
    """Unique within the session."""
    session_id: str


@dataclass(frozen=True)
class Stdout:
    """Text printed to stdout."""

    number: int
    text: str
    """Part of a line, or several lines."""


@dataclass(frozen=True)
class Stderr:
    """Text printed to stderr."""

    number: int
    text: str
    """Part of a line, or several lines."""


@dataclass(frozen=True)
class Display:
    """A display, figure or animation frame."""

    number: int
    kind: DisplayKind
    """`display`: show it. `update`: replace the display with this id. `clear`: drop everything
    shown so far. `image`: a figure. `video_frame`: a frame of an animation."""
    id: Optional[str]
    """The `display_id`, if the code gave one."""
    content: Representations
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Size of each representation, decoded, in bytes, also of those that were not sent."""


@dataclass(frozen=True)
class Result:
    """The value of the final expression."""

    number: int
    value: Value


@dataclass(frozen=True)
class ErrorEvent:
    """An uncaught exception."""

    number: int
    exception: ExceptionInfo


@dataclass(frozen=True)
class Call:
    """Code has called a tool, and waits. A stream with `tools` answers by itself."""

    number: int
    execution_id: str
    session_id: str
    call_id: str
    """Unique within the execution."""
    tool: str
    arguments: Mapping[str, Any]
    """By name, as the tool's schema allows them. Untrusted."""
    expires_at: datetime
    """When the call ends by itself if it is not answered."""


@dataclass(frozen=True)
class CallEnded:
    """A call waits no more."""

    number: int
    execution_id: str
    session_id: str
    call_id: str
    outcome: CallOutcome


@dataclass(frozen=True)
class Done:
    """The execution is over. The last event."""

    number: int
    outcome: Outcome
    """The outcome, including what earlier events carried."""


Event = Union[
    AwaitingApproval,
    Started,
    Stdout,
    Stderr,
    Display,
    Result,
    ErrorEvent,
    Call,
    CallEnded,
    Done,
]
"""Any event."""
