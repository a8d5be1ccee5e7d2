"""Commands in the background: what is asked of the daemon, and what its answers become."""

from __future__ import annotations

import asyncio
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from fake import DROP, Fake, Reply, Seen, js, problem
from samples import OUTCOME, STREAM
from vivarium_client import (
    AsyncClient,
    Client,
    Conflict,
    InvalidRequest,
    QuotaExceeded,
    TransportError,
)

STARTED = {"session_id": "demo", "execution_id": "7"}
BASE = "/v1/sessions/demo/executions/7"
RUNNING = {"state": "running", "outcome": None}
DONE: dict[str, Any] = {"state": "done", "outcome": OUTCOME}


def events(parts: list[bytes]) -> Reply:
    return Reply(200, b"".join(parts), {"Content-Type": "text/event-stream"})


def test_it_is_started_with_all_that_was_given(fake: Fake, client: Client) -> None:
    fake.answer = lambda seen: js(STARTED, 202)
    process = client.attach("demo").start(
        ["cat"],
        stdin_open=True,
        pty=(80, 24),
        cwd="sub",
        env={"A": "b"},
        timeout=2,
        files={"f": "x"},
    )
    assert process.id == "7"
    assert repr(process) == "Process('7')"
    assert client.attach("demo").start(shell="cat", stdin=b"\xff").id == "7"
    first, second = fake.seen
    assert first.target == "/v1/sessions/demo/commands"
    assert first.json() == {
        "argv": ["cat"],
        "stdin_open": True,
        "cwd": "sub",
        "env": {"A": "b"},
        "background": True,
        "pty": {"columns": 80, "rows": 24},
        "timeout_ms": 2000,
        "files": [{"name": "f", "text": "x"}],
    }
    assert second.json() == {"shell": "cat", "stdin_base64": "/w==", "background": True}
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]


def test_an_answer_that_was_lost_starts_no_second_one(
    fake: Fake, client: Client, pauses: list[float]
) -> None:
    fake.answers(DROP, js(STARTED, 202))
    assert client.attach("demo").start(["cat"]).id == "7"
    assert fake.seen[0] == fake.seen[1]


def test_it_is_written_to(fake: Fake, client: Client) -> None:
    process = client.attach("demo").process("7")
    fake.answers(js({"written_bytes": 3, "closed": False}), js({"written_bytes": 2}), js({}))
    assert process.write("é\n") == 3
    assert process.write(b"\xff\0") == 2
    process.close_stdin()
    assert [(seen.target, seen.body) for seen in fake.seen] == [
        (f"{BASE}/stdin", b"\xc3\xa9\n"),
        (f"{BASE}/stdin", b"\xff\0"),
        (f"{BASE}/stdin?close=true", b""),
    ]
    assert fake.seen[0].headers["Content-Type"] == "application/octet-stream"


def test_nothing_is_written_twice(fake: Fake, client: Client, pauses: list[float]) -> None:
    process = client.attach("demo").process("7")
    fake.answers(DROP)
    with pytest.raises(TransportError):
        process.write("x")
    fake.answers(problem(429, "stdin_full", **{"Retry-After": "1"}))
    with pytest.raises(QuotaExceeded):
        process.write("x")
    # Refused before any of it was read.
    fake.answers(problem(429, "too_many_requests"), js({"written_bytes": 1}))
    assert process.write("x") == 1
    assert len(pauses) == 1


def test_signals_have_names(fake: Fake, client: Client) -> None:
    process = client.attach("demo").process("7")
    fake.answer = lambda seen: Reply(204, b"")
    assert process.send_signal("SIGHUP")
    assert process.send_signal(signal.SIGUSR1)
    assert process.terminate()
    assert process.kill()
    assert {seen.target for seen in fake.seen} == {f"{BASE}/signal"}
    names = [seen.json()["signal"] for seen in fake.seen]
    assert names == ["SIGHUP", "SIGUSR1", "SIGTERM", "SIGKILL"]
    process.resize(100, 30)
    assert fake.seen[-1].target == f"{BASE}/resize"
    assert fake.seen[-1].json() == {"columns": 100, "rows": 30}


def test_one_that_has_ended(fake: Fake, client: Client) -> None:
    process = client.attach("demo").process("7")
    fake.answer = lambda seen: problem(409, "not_running")
    assert not process.kill()
    process.close_stdin()
    with pytest.raises(Conflict):
        process.write("x")
    fake.answer = lambda seen: problem(409, "no_stdin")
    with pytest.raises(Conflict):
        process.close_stdin()
    fake.answer = lambda seen: problem(422, "invalid_field")
    with pytest.raises(InvalidRequest):
        process.send_signal("SIGNONSENSE")


def test_its_end_is_waited_for_by_its_events(
    fake: Fake, client: Client, pauses: list[float]
) -> None:
    process = client.attach("demo").process("7")
    fake.answers(js(RUNNING))
    assert process.poll() is None
    # The connection breaks, and meanwhile more was printed than is kept.
    fake.answers(
        js(RUNNING),
        events(STREAM[:2]),
        problem(410, "events_gone"),
        js(RUNNING),
        events(STREAM),
        js(DONE),
    )
    fake.seen.clear()
    assert process.wait().ok
    asked = [(seen.headers.get("Accept"), seen.headers.get("Last-Event-ID")) for seen in fake.seen]
    assert [last for accept, last in asked if accept == "text/event-stream"] == [None, "2", None]
    fake.answers(js(DONE))
    assert process.wait().ok


def test_the_end_is_not_waited_for_longer_than_asked(
    fake: Fake, client: Client, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic=lambda: sum(pauses))
    monkeypatch.setattr("vivarium_client._core.process.time", clock)
    process = client.attach("demo").process("7")
    fake.answer = lambda seen: js(RUNNING)
    with pytest.raises(TimeoutError, match="7"):
        process.wait(timeout=2)
    assert pauses[:3] == [0.01, 0.02, 0.04]
    assert max(pauses) <= 0.5
    assert sum(pauses) == pytest.approx(2)
    fake.answers(js(RUNNING), js(DONE))
    assert process.wait(timeout=60).ok


def test_its_events_begin_where_asked(fake: Fake, client: Client) -> None:
    process = client.attach("demo").process("7")

    def answer(seen: Seen) -> Reply:
        return events(STREAM[int(seen.headers.get("Last-Event-ID", 0)) :])

    fake.answer = answer
    assert next(iter(process.stream())).number == 1
    assert next(iter(process.stream(after=2))).number == 3
    assert "Last-Event-ID" not in fake.seen[0].headers
    next(iter(process.stream(after=0)))
    assert fake.seen[2].headers["Last-Event-ID"] == "0"


def test_asyncio(fake: Fake, pauses: list[float]) -> None:
    async def main() -> None:
        async with AsyncClient(fake.url) as client:
            session = client.attach("demo")
            fake.answers(js(STARTED, 202), js({"written_bytes": 1}), js({}), Reply(204, b""))
            process = await session.start(["cat"], stdin_open=True)
            assert repr(process) == "AsyncProcess('7')"
            assert await process.write("x") == 1
            await process.close_stdin()
            assert await process.terminate()
            fake.answers(js(RUNNING), js(RUNNING), events(STREAM), js(DONE), events(STREAM))
            assert await process.poll() is None
            assert (await process.wait()).ok
            assert len([event async for event in session.process("7").stream()]) == 9
            fake.answer = lambda seen: problem(409, "not_running")
            assert not await process.kill()

    asyncio.run(main())
