"""Answers as the daemon gives them."""

from __future__ import annotations

import json
from typing import Any

OUTCOME: dict[str, Any] = {
    "execution_id": "1",
    "session_id": "demo",
    "status": "ok",
    "cause": None,
    "detail": "",
    "state": "preserved",
    "rolled_back": False,
    "kernel": {"generation": 1, "fresh": True, "previous_end": None},
    "session_created": True,
    "exit_code": None,
    "stdout": "hello\n",
    "stdout_truncated": False,
    "stderr": "",
    "stderr_truncated": False,
    "exception": None,
    "result": {"repr": "42", "type": "int", "mime": {"text/plain": "42"}},
    "displays": [],
    "images": [],
    "video_frames": [],
    "files": [],
    "files_changed": [],
    "files_changed_more": False,
    "duration_ms": 0.2,
    "usage": {"cpu_ms": 0.1, "memory_peak_bytes": 9437184},
}

EXCEPTION = {
    "type": "ZeroDivisionError",
    "message": "division by zero",
    "traceback": "Traceback (most recent call last):\nZeroDivisionError: division by zero\n",
}

SESSION: dict[str, Any] = {
    "id": "demo",
    "tenant": "default",
    "environment": "default",
    "state": "idle",
    "protection": [{"layer": "seccomp", "status": "enforced", "detail": "on", "fix": ""}],
    "limits": {"max_memory_mb": 512, "max_procs": "unlimited", "cpu_cores": 0.5},
    "network": "none",
    "usage": {"cpu_ms": 19.2, "memory_bytes": None, "memory_peak_bytes": 0, "executions": 3},
    "created_at": "2026-01-01T12:00:00.123456789Z",
    "last_used_at": "2026-01-01T12:00:00Z",
    "expires_at": "2026-01-01T12:10:00.5Z",
    "metadata": {"for": "tests"},
}

IMAGE = {
    "size_bytes": 39841,
    "suspended_at": "2026-01-01T12:03:00Z",
    "expires_at": None,
    "auto_resume": True,
}

STORED_IMAGE = {
    **IMAGE,
    "session_id": "demo",
    "environment": "default",
    "template": "5f" * 32,
    "executions": 2,
}

CHECKPOINT = {
    "name": "before",
    "created_at": "2026-11-28T01:02:03Z",
    "size_bytes": 39841,
    "executions": 4,
}

CHECKPOINT_DIFF = {
    "from": "before",
    "to": "after",
    "added": [{"name": "rows", "type": "list"}],
    "removed": [],
    "changed": [{"name": "frame", "type": "pandas.DataFrame"}],
    "more": False,
}

# A red pixel.
PNG_BASE64 = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)

DONE = {
    name: value
    for name, value in OUTCOME.items()
    if name not in ("stdout", "stderr", "displays", "images", "video_frames", "result", "exception")
}


def sse(number: int, event: str, data: object) -> bytes:
    """An event as the daemon writes it."""
    return f"id: {number}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()


STREAM: list[bytes] = [
    sse(1, "started", {"execution_id": "7", "session_id": "demo"}),
    sse(2, "stdout", {"text": "one\n"}),
    sse(3, "stderr", {"text": "two\n"}),
    sse(4, "display", {"kind": "display", "id": "d", "mime": {"text/plain": "old"}}),
    sse(5, "display", {"kind": "update", "id": "d", "mime": {"text/plain": "new"}}),
    sse(6, "display", {"kind": "image", "id": None, "mime": {"image/png": PNG_BASE64}}),
    sse(7, "from a later version", {"what": "ever"}),
    sse(8, "stdout", {"text": "three é\n"}),
    sse(9, "result", {"repr": "42", "type": "int", "mime": {"text/plain": "42"}}),
    sse(10, "done", {**DONE, "execution_id": "7"}),
]
