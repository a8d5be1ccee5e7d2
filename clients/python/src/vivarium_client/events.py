"""The events of a streamed execution, in the order in which they happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from .models.media import Representations, Value
from .models.outcome import ExceptionInfo, Outcome


@dataclass(frozen=True)
class Started:
    """The execution is known to the daemon. The first event."""

    number: int
    """Of the event, from 1 within its execution."""
    execution_id: str
    """The execution, within its session."""
    session_id: str
    """The session."""


@dataclass(frozen=True)
class Stdout:
    """Text that was printed."""

    number: int
    """Of the event."""
    text: str
    """It: any part of a line, or of many."""


@dataclass(frozen=True)
class Stderr:
    """Text that was printed as errors."""

    number: int
    """Of the event."""
    text: str
    """It: any part of a line, or of many."""


@dataclass(frozen=True)
class Display:
    """Something was shown."""

    number: int
    """Of the event."""
    kind: str
    """`display`: show it. `update`: show it in place of the one with its id. `clear`: forget
    what was shown so far. `image`: a figure. `video_frame`: a frame of an animation."""
    id: Optional[str]
    """Its `display_id`, if the code gave it one."""
    content: Representations
    """It."""


@dataclass(frozen=True)
class Result:
    """The final expression has a value."""

    number: int
    """Of the event."""
    value: Value
    """It."""


@dataclass(frozen=True)
class ErrorEvent:
    """An exception was not caught."""

    number: int
    """Of the event."""
    exception: ExceptionInfo
    """It."""


@dataclass(frozen=True)
class Done:
    """The execution is over. The last event."""

    number: int
    """Of the event."""
    outcome: Outcome
    """What became of it, with all that the events before told."""


Event = Union[Started, Stdout, Stderr, Display, Result, ErrorEvent, Done]
"""Any of them."""
