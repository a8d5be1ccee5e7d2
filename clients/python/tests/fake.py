"""A daemon that answers what a test says, over a real socket."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Optional


@dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Its body."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """What to answer. With `cut_at`, the connection ends after so many bytes of the body."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_at: Optional[int] = None


DROP = Reply(status=0)
"""Closes the connection without an answer."""


def js(value: object, status: int = 200, **headers: str) -> Reply:
    """JSON."""
    return Reply(
        status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers}
    )


def problem(status: int, code: str, **headers: str) -> Reply:
    """A refusal."""
    fields = {"type": f"urn:vivarium:problem:{code}", "status": status, "code": code}
    reply = js({**fields, "detail": f"because of {code}"}, status, **headers)
    return Reply(status, reply.body, {**headers, "Content-Type": "application/problem+json"})


class Fake:
    """The daemon. `answer` is asked for a reply to each request, in the order they come."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.failures: list[object] = []
        self.answer: Callable[[Seen], Reply] = lambda seen: problem(404, "unknown_path")
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self) -> None:
                seen = Seen(self.command, self.path, dict(self.headers), self._body())
                fake.seen.append(seen)
                self._send(fake.answer(seen))

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)

            def _send(self, reply: Reply) -> None:
                self.close_connection = reply.cut_at is not None or reply.status == 0
                if reply.status == 0:
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                # RFC 9110, 8.6: there is none with 204.
                if reply.status != 204:
                    self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body[: reply.cut_at])

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                error = sys.exc_info()[1]
                # A client that goes away is no mistake of a test.
                if not isinstance(error, ConnectionError):
                    fake.failures.append(error)

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def answers(self, *replies: Reply) -> None:
        """Answers with these, one after the other."""
        left = iter(replies)
        self.answer = lambda seen: next(left)

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        assert self.failures == [], "a test's answer failed, such as for want of more replies"
