"""A daemon's address: `http://HOST:PORT`, `https://…` through your own proxy, or `unix:/PATH`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Optional
from urllib.parse import urlsplit

from .._version import __version__

DEFAULT_URL = "http://127.0.0.1:8470"

_PORT = 8470


@dataclass(frozen=True)
class Address:
    """A daemon's address, and the token to send."""

    url: str
    base: str
    """The prefix of every request's target."""
    socket: Optional[str]
    """Path of the Unix socket, if it is one."""
    token: Optional[str] = field(repr=False)

    @classmethod
    def of(cls, url: Optional[str], token: Optional[str]) -> Address:
        """Uses the arguments, else the environment variables, else the default."""
        if url is None:
            url = os.environ.get("VIVARIUM_URL") or DEFAULT_URL
        if token is None:
            token = os.environ.get("VIVARIUM_TOKEN") or None
        if url.startswith("unix:"):
            # unix:/PATH and unix:///PATH are the same path.
            path = url[len("unix:") :]
            path = path[2:] if path.startswith("//") else path
            if not path.startswith("/") or path == "/":
                raise ValueError(f"{url!r} has no absolute path of a Unix socket")
            return cls(url, "http://localhost", path, token)
        return cls(url, _base(url), None, token)

    def headers(self) -> Mapping[str, str]:
        """Headers of every request."""
        headers = {
            "User-Agent": f"vivarium-client/{__version__}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers


def _base(url: str) -> str:
    parts = urlsplit(url)
    known = parts.scheme in ("http", "https")
    if not known or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"{url!r} is no daemon's URL: http://HOST:PORT or unix:/PATH")
    port = "" if parts.port or parts.scheme == "https" else f":{_PORT}"
    return f"{parts.scheme}://{parts.netloc.rstrip(':')}{port}{parts.path.rstrip('/')}"
