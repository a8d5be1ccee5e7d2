"""Decides whether and when a failed request is retried.

Only if that cannot carry it out twice: it never reached the daemon, was refused, or is
idempotent.
"""

from __future__ import annotations

import random
from http import HTTPStatus
from typing import Optional

from ..errors import ApiError, TransportError, VivariumError
from .request import Request

_FIRST_PAUSE_SECS = 0.1
_LONGEST_PAUSE_SECS = 5.0

# A daemon that asks for more than this is not waited for: the caller knows better what to do.
_LONGEST_RETRY_AFTER_SECS = 60.0


class Retries:
    """The tries of one call."""

    def __init__(self, max_retries: int) -> None:
        self.max_retries = max_retries
        self.made = 0

    def begin_anew(self) -> None:
        """Forgets earlier failures, after progress."""
        self.made = 0

    def pause_secs(self, request: Request, error: VivariumError) -> Optional[float]:
        """Returns the pause before the next try; None if there is none."""
        if self.made >= self.max_retries or not request.resendable:
            return None
        pause = self._pause_secs(request, error)
        if pause is not None:
            self.made += 1
        return pause

    def _pause_secs(self, request: Request, error: VivariumError) -> Optional[float]:
        longest = min(_FIRST_PAUSE_SECS * 2.0**self.made, _LONGEST_PAUSE_SECS)
        backoff = longest * random.uniform(0.5, 1)
        if isinstance(error, TransportError):
            return backoff if request.idempotent or not error.reached else None
        if isinstance(error, ApiError) and error.code == "stdin_full":
            # Some of the input may have been written.
            return None
        if isinstance(error, ApiError) and error.status in (
            HTTPStatus.TOO_MANY_REQUESTS,
            HTTPStatus.SERVICE_UNAVAILABLE,
        ):
            asked = error.retry_after
            if asked is None:
                return backoff
            return asked if asked <= _LONGEST_RETRY_AFTER_SECS else None
        return None
