"""One HTTP request, before it is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Optional, Union
from urllib.parse import quote, urlencode

from .content import Source


class Patience(Enum):
    """How long to wait for the next byte of a response."""

    CALL = "the client's timeout"
    WORK = "for ever: the daemon answers when the code has ended, and sees to that itself"
    EVENTS = "several of the stream's keep-alives"


@dataclass(frozen=True)
class Request:
    """One request."""

    method: str
    target: str
    """Path and query, percent-encoded."""
    content: Union[bytes, Source, None] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    idempotent: bool = False
    """Whether sending it twice has the effect of sending it once."""
    patience: Patience = Patience.CALL

    @property
    def resendable(self) -> bool:
        return not isinstance(self.content, Source) or self.content.repeatable

    def streamed(self) -> Request:
        """The same request, answered by a stream of events."""
        return self.with_headers({"Accept": "text/event-stream"}, Patience.EVENTS)

    def with_headers(self, headers: Mapping[str, str], patience: Patience) -> Request:
        """The same request with more headers."""
        return replace(self, headers={**self.headers, **headers}, patience=patience)


def path(*segments: str) -> str:
    """Returns a path below `/v1`; slashes within a segment are escaped."""
    return "/v1/" + "/".join(_segment(segment) for segment in segments)


def file_path(session_id: str, name: str) -> str:
    parts = name.split("/")
    if name.startswith("/"):
        # Its first slash is escaped: proxies merge two that follow each other.
        parts[:2] = ["/" + parts[1]]
    return path("sessions", session_id, "files", *parts)


def _segment(text: str) -> str:
    # HTTP libraries resolve "." and ".." before they send: then "files/../x" would be another
    # route. Encoded, they come to the daemon, which refuses them by name.
    return text.replace(".", "%2E") if text in (".", "..") else quote(text, safe="")


def get(where: str, query: Optional[Mapping[str, object]] = None) -> Request:
    """Returns a GET request. Query parameters that are None are left out."""
    return Request("GET", with_query(where, query or {}), idempotent=True)


def with_query(where: str, query: Mapping[str, object]) -> str:
    """Adds query parameters to a path. Those that are None are left out."""
    given = {name: value for name, value in query.items() if value is not None}
    return f"{where}?{urlencode(given)}" if given else where


def post(where: str, fields: Optional[Mapping[str, Any]] = None, **options: Any) -> Request:
    """Returns a POST request, with or without JSON. Fields that are None are left out."""
    if fields is None:
        return Request("POST", where, **options)
    return _with_json("POST", where, fields, **options)


def patch(where: str, fields: Mapping[str, Any], **options: Any) -> Request:
    """Returns a PATCH request with JSON."""
    return _with_json("PATCH", where, fields, **options)


def _with_json(method: str, where: str, fields: Mapping[str, Any], **options: Any) -> Request:
    given = {name: value for name, value in fields.items() if value is not None}
    body = json.dumps(given, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/json", **options.pop("headers", {})}
    return Request(method, where, body, headers, **options)


def merge_patch(where: str, fields: Mapping[str, Any]) -> Request:
    """Returns a request with a JSON merge patch, in which None removes."""
    body = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    headers = {"Content-Type": "application/merge-patch+json"}
    # The daemon may wait for the host's kernel to reclaim memory.
    return Request("PATCH", where, body, headers, idempotent=True, patience=Patience.WORK)
