"""What can go wrong, each as a class of its own.

Three kinds: the daemon was not reached (`TransportError`), the daemon said no (`ApiError`), and
the code did not run to its end (`ExecutionError`, raised only by `Outcome.raise_for_status`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .models.outcome import Outcome


class VivariumError(Exception):
    """Any error of this package."""


class TransportError(VivariumError):
    """The daemon could not be reached, or the connection broke."""

    reached: bool
    """Whether the request may have reached the daemon, and may have been carried out."""

    def __init__(self, message: str, *, reached: bool = True) -> None:
        super().__init__(message)
        self.reached = reached


class UnexpectedAnswer(VivariumError):
    """What answered does not speak the daemon's API."""


class ApiError(VivariumError):
    """The daemon refused a request (RFC 9457)."""

    status: int
    """The HTTP status."""
    code: str
    """The stable name of the reason, such as `unknown_session`."""
    detail: str
    """What went wrong, for people."""
    field: Optional[str]
    """The field it is about, such as `limits.max_procs`."""
    fix: Optional[str]
    """What an operator can do about it."""
    retry_after: Optional[float]
    """Seconds after which to try again, where the daemon says so."""
    problem: Mapping[str, Any]
    """The whole answer."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        problem: Mapping[str, Any],
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(f"{detail} ({status} {code})")
        self.status = status
        self.code = code
        self.detail = detail
        self.problem = problem
        self.retry_after = retry_after
        self.field = _text(problem.get("field"))
        self.fix = _text(problem.get("fix"))


class InvalidRequest(ApiError):
    """The request can not be carried out as it is (400, 405, 406, 413, 415, 416, 422)."""


class Unauthenticated(ApiError):
    """No token, or not a valid one (401)."""


class Forbidden(ApiError):
    """Not from here (403)."""


class NotFound(ApiError):
    """No such session, execution, file or route (404)."""


class Conflict(ApiError):
    """What is there stands in the way: a session of this id, or one that is busy (409)."""


class EventsGone(ApiError):
    """The events to resume with are no longer kept (410). The outcome may still be."""


class QuotaExceeded(ApiError):
    """As much as may be is there already; see `retry_after` (429)."""


class ServerError(ApiError):
    """The daemon, or something between, failed (5xx)."""


class Unavailable(ServerError):
    """The daemon takes no work for now; see `retry_after` (503)."""


class Draining(Unavailable):
    """The daemon is shutting down (503)."""


class ExecutionError(VivariumError):
    """The code did not run to its end."""

    outcome: Outcome
    """All that is known."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class CodeError(ExecutionError):
    """The code raised an exception, or did not compile. `str()` ends with its traceback."""

    type: str
    """The exception's class, such as `ZeroDivisionError`."""
    message: str
    """`str()` of the exception."""
    traceback: str
    """As Python prints it."""

    def __init__(self, outcome: Outcome, type: str, message: str, traceback: str) -> None:
        first = f"{type}: {message}" if message else type
        super().__init__(f"{first}\n{traceback}".rstrip(), outcome)
        self.type = type
        self.message = message
        self.traceback = traceback


class CommandFailed(ExecutionError):
    """A command exited with another code than 0."""

    exit_code: int
    """It."""

    def __init__(self, outcome: Outcome, exit_code: int) -> None:
        last = outcome.stderr.rstrip().rpartition("\n")[2]
        super().__init__(f"exit code {exit_code}" + (f": {last}" if last else ""), outcome)
        self.exit_code = exit_code


class TimedOut(ExecutionError):
    """The time, or the CPU time, was up."""


class Interrupted(ExecutionError):
    """Somebody asked for an interrupt."""


class Killed(ExecutionError):
    """The kernel, or the command, died or was killed."""

    cause: Optional[str]
    """Why, such as `memory_limit` or `signal`."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message, outcome)
        self.cause = outcome.cause


class Rejected(ExecutionError):
    """It never ran."""


class OutputFileError(VivariumError):
    """A declared output has no content: it is missing, too large, or no regular file."""


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) else None
