"""Exceptions.

Three kinds: the daemon was not reached (`TransportError`), it refused (`ApiError`), or the code did
not run to its end (`ExecutionError`, raised only by `Outcome.raise_for_status`).
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
    """Whether the request may have reached the daemon and been carried out."""

    def __init__(self, message: str, *, reached: bool = True) -> None:
        super().__init__(message)
        self.reached = reached


class UnexpectedAnswer(VivariumError):
    """The response did not come from a Vivarium daemon."""


class ApiError(VivariumError):
    """The daemon refused a request (RFC 9457)."""

    status: int
    """The HTTP status."""
    code: str
    """The stable error code, such as `unknown_session`."""
    detail: str
    """The explanation, for people."""
    field: Optional[str]
    """The field at fault, such as `limits.max_procs`."""
    quota: Optional[str]
    """The tenant's quota that is used up, such as `execution_rate`."""
    fix: Optional[str]
    """What an operator can do about it."""
    retry_after: Optional[float]
    """Seconds after which to retry, if the daemon says so."""
    problem: Mapping[str, Any]
    """The whole problem document."""

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
        self.quota = _text(problem.get("quota"))
        self.fix = _text(problem.get("fix"))


class InvalidRequest(ApiError):
    """The request is invalid (400, 405, 406, 413, 415, 416, 422)."""


class Unauthenticated(ApiError):
    """The token is missing or not valid (401)."""


class Forbidden(ApiError):
    """The daemon does not take requests with this Host or Origin (403)."""


class NotFound(ApiError):
    """No such session, context, checkpoint, execution, file or route (404)."""


class Conflict(ApiError):
    """The id or name is taken, the session is busy, or something else is in the way (409)."""


class EventsGone(ApiError):
    """The events or the result are no longer kept (410). The outcome may still be."""


class QuotaExceeded(ApiError):
    """Something is used up (429); see `retry_after`, and `quota` if it is a quota of the tenant."""


class ServerError(ApiError):
    """The daemon or a proxy failed (5xx)."""


class Unavailable(ServerError):
    """The daemon takes no work for now (503); see `retry_after`."""


class Draining(Unavailable):
    """The daemon is draining: it takes no new work until it is started again (503)."""


class ExecutionError(VivariumError):
    """The code did not run to its end."""

    outcome: Outcome
    """The outcome that is not ok."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome = outcome


class CodeError(ExecutionError):
    """The code raised an exception or did not compile. `str()` ends with the traceback."""

    type: str
    """The exception's class, such as `ZeroDivisionError`."""
    message: str
    traceback: str
    """As Python prints it, with the user's source lines."""

    def __init__(self, outcome: Outcome, type: str, message: str, traceback: str) -> None:
        first = f"{type}: {message}" if message else type
        super().__init__(f"{first}\n{traceback}".rstrip(), outcome)
        self.type = type
        self.message = message
        self.traceback = traceback


class CommandFailed(ExecutionError):
    """A command exited with a code other than 0."""

    exit_code: int

    def __init__(self, outcome: Outcome, exit_code: int) -> None:
        last = outcome.stderr.rstrip().rpartition("\n")[2]
        super().__init__(f"exit code {exit_code}" + (f": {last}" if last else ""), outcome)
        self.exit_code = exit_code


class TimedOut(ExecutionError):
    """The code exceeded its time or CPU time."""


class Interrupted(ExecutionError):
    """A client interrupted the code."""


class Killed(ExecutionError):
    """The kernel or the command died or was killed."""

    cause: Optional[str]
    """The reason, such as `memory_limit` or `signal`."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message, outcome)
        self.cause = outcome.cause


class Rejected(ExecutionError):
    """The code never ran."""


class ToolError(Exception):
    """Raised by a tool's function: code in the session gets `vivarium.ToolError` with the same
    message and data.

    Args:
        message: What went wrong.
        data: More about it, as JSON.
    """

    def __init__(self, message: str, data: object = None) -> None:
        super().__init__(message)
        self.data = data


class OutputFileError(VivariumError):
    """A declared output has no content: it is missing, too large, or not a regular file."""


def _text(value: object) -> Optional[str]:
    return value if isinstance(value, str) else None
