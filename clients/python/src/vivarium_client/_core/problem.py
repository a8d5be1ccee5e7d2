"""Turns a problem (RFC 9457) into an exception."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Optional

from .. import errors

_BY_STATUS: dict[int, type[errors.ApiError]] = {
    400: errors.InvalidRequest,
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.InvalidRequest,
    406: errors.InvalidRequest,
    409: errors.Conflict,
    410: errors.EventsGone,
    413: errors.InvalidRequest,
    415: errors.InvalidRequest,
    416: errors.InvalidRequest,
    422: errors.InvalidRequest,
    429: errors.QuotaExceeded,
    503: errors.Unavailable,
}


def api_error(status: int, headers: Mapping[str, str], body: bytes) -> errors.ApiError:
    """Returns the exception for an unsuccessful response, with or without a problem."""
    problem = _problem(body)
    code = problem.get("code")
    if not isinstance(code, str):
        code = f"http_{status}"
    detail = problem.get("detail")
    if not isinstance(detail, str):
        detail = body[:200].decode(errors="replace").strip() or _phrase(status)
    kind = _BY_STATUS.get(status)
    if kind is None:
        is_server = status >= HTTPStatus.INTERNAL_SERVER_ERROR
        kind = errors.ServerError if is_server else errors.ApiError
    if code == "draining":
        kind = errors.Draining
    return kind(status, code, detail, problem, _retry_after_secs(headers))


def _problem(body: bytes) -> dict[str, Any]:
    try:
        problem = json.loads(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no reason given"


def _retry_after_secs(headers: Mapping[str, str]) -> Optional[float]:
    """Parses the number form (RFC 9110, 10.2.3), which is all the daemon sends."""
    try:
        secs = float(headers.get("retry-after", ""))
    except ValueError:
        return None
    return secs if math.isfinite(secs) and secs >= 0 else None
