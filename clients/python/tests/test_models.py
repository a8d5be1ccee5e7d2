"""Answers become types, whatever version gave them."""

from __future__ import annotations

import base64
from dataclasses import asdict, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from samples import EXCEPTION, OUTCOME, PNG_BASE64, SESSION
from vivarium_client import errors
from vivarium_client._core.reading import Reader
from vivarium_client.models import (
    HostInfo,
    Kernel,
    MemoryCapacity,
    Outcome,
    Pool,
    PreviousEnd,
    SessionInfo,
    SessionUsage,
    Usage,
)


def outcome(**changes: Any) -> Outcome:
    return Outcome._read(Reader({**OUTCOME, **changes}, "outcome"))


def test_every_field_of_an_outcome() -> None:
    image = {"mime_type": "image/png", "data": PNG_BASE64}
    read = outcome(
        displays=[{"id": "d", "mime": {"text/plain": "x", "text/html": "<b>x</b>"}}],
        images=[image],
        video_frames=[image, image],
        files_changed=[{"name": "a", "size_bytes": 1}],
        files_changed_more=True,
        stdout_truncated=True,
    )
    assert (read.execution_id, read.session_id, read.status, read.state) == (
        "1",
        "demo",
        "ok",
        "preserved",
    )
    assert read.ok
    assert (read.text, read.stdout_truncated, read.stderr_truncated) == ("hello\n", True, False)
    assert read.value is not None
    assert (str(read.value), read.value.type, read.value.text) == ("42", "int", "42")
    assert read.displays[0].id == "d"
    assert read.displays[0].html == "<b>x</b>"
    assert read.images[0].bytes == base64.b64decode(PNG_BASE64)
    assert len(read.video_frames) == 2
    assert read.files_changed[0].name == "a"
    assert read.files_changed_more
    assert (read.duration_ms, read.usage.cpu_ms, read.usage.memory_peak_bytes) == (
        0.2,
        0.1,
        9437184,
    )
    assert read.kernel == Kernel(1, True, None)
    assert read.session_created
    assert read.raise_for_status() is read


def test_whether_the_session_was_rolled_back() -> None:
    assert not outcome().rolled_back
    lost = outcome(status="killed", cause="signal", rolled_back=True)
    assert (lost.state, lost.rolled_back) == ("preserved", True)
    earlier_version = Outcome._read(Reader({"status": "killed", "state": "lost"}, "outcome"))
    assert not earlier_version.rolled_back


def test_the_end_of_the_kernel_before() -> None:
    end = {"cause": "signal", "detail": "the kernel was killed by SIGSEGV (11)"}
    read = outcome(kernel={"generation": 3, "fresh": False, "previous_end": end})
    assert read.kernel == Kernel(3, False, PreviousEnd(**end))
    earlier_version = Outcome._read(Reader({"status": "ok"}, "outcome"))
    assert (earlier_version.kernel, earlier_version.session_created) == (None, False)


def test_versions_may_differ() -> None:
    assert outcome(from_a_later_version={"a": 1}) == outcome()
    small = Outcome._read(Reader({"status": "some later status"}, "outcome"))
    assert not small.ok
    assert small.images == ()
    with pytest.raises(errors.ExecutionError, match="some later status"):
        small.raise_for_status()
    whole = outcome(duration_ms=3)
    assert type(whole.duration_ms) is float


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("status", None),
        ("status", 1),
        ("stdout", 1),
        ("stdout_truncated", "no"),
        ("rolled_back", "yes"),
        ("exit_code", True),
        ("exit_code", "1"),
        ("duration_ms", "fast"),
        ("duration_ms", True),
        ("images", {}),
        ("images", [1]),
        ("result", []),
        ("usage", "much"),
    ],
)
def test_what_is_not_the_daemons_is_an_error(field: str, value: object) -> None:
    with pytest.raises(errors.UnexpectedAnswer, match=field):
        outcome(**{field: value})


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"status": "error", "exception": EXCEPTION}, errors.CodeError, "division by zero"),
        (
            {"status": "error", "exit_code": 3, "stderr": "a\nno such file\n"},
            errors.CommandFailed,
            "exit code 3: no such file",
        ),
        ({"status": "error", "exit_code": 3}, errors.CommandFailed, "exit code 3"),
        (
            {"status": "timed_out", "cause": "wall_time", "detail": "gave way"},
            errors.TimedOut,
            "timed_out: wall_time: gave way",
        ),
        ({"status": "interrupted", "cause": "interrupt"}, errors.Interrupted, "interrupted"),
        (
            {"status": "killed", "cause": "memory_limit", "detail": "512 MiB"},
            errors.Killed,
            "killed: memory_limit: 512 MiB",
        ),
        ({"status": "rejected", "cause": "draining"}, errors.Rejected, "rejected: draining"),
        ({"status": "error"}, errors.ExecutionError, "error"),
    ],
)
def test_ends_become_exceptions(
    changes: dict[str, Any], kind: type[errors.ExecutionError], message: str
) -> None:
    failed = outcome(**changes)
    assert not failed.ok
    with pytest.raises(errors.ExecutionError, match=message) as raised:
        failed.raise_for_status()
    assert type(raised.value) is kind
    assert raised.value.outcome is failed


def test_exceptions_have_the_evidence() -> None:
    with pytest.raises(errors.CodeError) as code:
        outcome(status="error", exception=EXCEPTION).raise_for_status()
    assert (code.value.type, code.value.message) == ("ZeroDivisionError", "division by zero")
    assert code.value.traceback == EXCEPTION["traceback"]
    with pytest.raises(errors.Killed) as killed:
        outcome(status="killed", cause="signal").raise_for_status()
    assert killed.value.cause == "signal"


def test_files_are_bytes_and_text(tmp_path: Path) -> None:
    data = base64.b64encode(b"\xff\0").decode()
    files = outcome(
        files=[
            {
                "name": "d/a.txt",
                "format": "text",
                "mime_type": "text/plain",
                "size_bytes": 3,
                "text": "é\n",
            },
            {"name": "b.bin", "format": "base64", "size_bytes": 2, "data": data},
            {"name": "empty", "format": "text", "size_bytes": 0, "text": ""},
            {"name": "gone", "format": "text", "size_bytes": 0, "error": "no such file"},
        ]
    ).files
    assert list(files) == ["d/a.txt", "b.bin", "empty", "gone"]
    assert (files["d/a.txt"].bytes, files["d/a.txt"].text) == ("é\n".encode(), "é\n")
    assert (files["b.bin"].bytes, files["b.bin"].text) == (b"\xff\0", "\ufffd\0")
    assert files["empty"].bytes == b""
    for use in (lambda: files["gone"].text, lambda: files["gone"].save(tmp_path)):
        with pytest.raises(errors.OutputFileError, match="gone: no such file"):
            use()
    assert files["d/a.txt"].save(tmp_path) == tmp_path / "a.txt"
    assert files["b.bin"].save(tmp_path / "c").read_bytes() == b"\xff\0"


def test_a_name_from_the_daemon_does_not_leave_the_directory(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    for name in ("../out", "/etc/out", "a/../../out"):
        file = outcome(files=[{"name": name, "size_bytes": 1, "text": "x"}]).files[name]
        assert file.save(inner) == inner / "out"
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]


def test_images_are_pillows_on_request(tmp_path: Path) -> None:
    image = outcome(images=[{"mime_type": "image/png", "data": PNG_BASE64}]).images[0]
    assert image.pil().convert("RGB").getpixel((0, 0)) == (255, 0, 0)
    assert image.save(tmp_path / "a.png").read_bytes() == image.bytes
    for data in ("%", "é"):
        broken = outcome(images=[{"mime_type": "image/png", "data": data}]).images[0]
        with pytest.raises(errors.UnexpectedAnswer, match="base64"):
            _ = broken.bytes


def test_a_session() -> None:
    info = SessionInfo._read(Reader(SESSION, "session"))
    assert info.created_at == datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=timezone.utc)
    assert info.expires_at == datetime(2026, 1, 1, 12, 10, 0, 500000, tzinfo=timezone.utc)
    assert info.limits["max_memory_mb"] == 512
    assert info.limits["max_procs"] == "unlimited"
    assert info.protection[0].layer == "seccomp"
    assert info.usage.memory_bytes is None
    for bad in ("2026-01-01", "2026-13-01T12:00:00Z", "2026-01-01T12:00:00", 3):
        with pytest.raises(errors.UnexpectedAnswer, match="created_at"):
            SessionInfo._read(Reader({**SESSION, "created_at": bad}, "session"))


@pytest.mark.parametrize("model", [SessionUsage, Usage])
def test_every_field_of_usage_is_read(model: type[SessionUsage] | type[Usage]) -> None:
    numbers = {field.name: number for number, field in enumerate(fields(model), 1)}
    assert asdict(model._read(Reader(numbers, "usage"))) == numbers


def test_a_host() -> None:
    host = HostInfo._read(
        Reader(
            {
                "version": "0.1.0",
                "kernel": "6.1",
                "mode": "auto",
                "layers": [],
                "environments": [
                    {
                        "name": "default",
                        "interpreter": "/usr/bin/python3",
                        "python_version": "3.11",
                        "pool": {"ready": 1, "low": 2, "high": 4},
                    },
                    {"name": "older", "interpreter": "/usr/bin/python3", "python_version": "3.9"},
                    {"name": "light", "runtime": "wasm", "interpreter": "/w"},
                ],
                "capacity": {
                    "sessions": 1,
                    "max_sessions": "unlimited",
                    "queue_depth": 32,
                    "cpus": 2,
                    "memory": {"available_bytes": 5, "session_estimate_bytes": 3},
                },
            },
            "host",
        )
    )
    assert host.environments[0].name == "default"
    assert host.environments[0].pool == Pool(ready=1, low=2, high=4)
    assert host.environments[1].pool is None
    assert [one.runtime for one in host.environments] == ["cpython", "cpython", "wasm"]
    assert host.capacity.max_sessions == "unlimited"
    assert host.capacity.memory == MemoryCapacity(available_bytes=5, session_estimate_bytes=3)
