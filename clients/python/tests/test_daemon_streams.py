"""Against a real daemon: streams, connections that break, executions that go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from daemon import Daemon, Relay
from vivarium_client import (
    AsyncClient,
    Client,
    Done,
    Event,
    EventsGone,
    EventStream,
    NotFound,
    Result,
    Session,
    Started,
    Stderr,
    Stdout,
)

# Goes on when the file is there. Its own clock, in the session: nothing here waits for time.
AWAIT_FILE = """
import os, time
print("waiting", flush=True)
while not os.path.exists("go"):
    time.sleep(0.01)
print("went on")
"""

COUNT = "for n in range(2000): print(n, 'x' * 50)"
COUNTED = "".join(f"{n} {'x' * 50}\n" for n in range(2000))


def until_text(stream: EventStream) -> Stdout:
    for event in stream:
        if isinstance(event, Stdout):
            return event
    raise AssertionError("nothing was printed")


def test_events_come_in_order(session: Session) -> None:
    with session.stream(
        "import sys\n"
        "print('one', flush=True); print('two', file=sys.stderr, flush=True)\n"
        "print('three', flush=True); 42"
    ) as stream:
        events = list(stream)
    first, last = events[0], events[-1]
    assert isinstance(first, Started)
    assert (first.session_id, first.execution_id) == (session.id, stream.execution_id)
    assert isinstance(last, Done)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    # In order within each of the two pipes; between them nobody knows it.
    for kind, text in ((Stdout, "one\nthree\n"), (Stderr, "two\n")):
        assert "".join(event.text for event in events if isinstance(event, kind)) == text
    assert [str(event.value) for event in events if isinstance(event, Result)] == ["42"]
    assert stream.outcome is last.outcome
    assert (last.outcome.stdout, last.outcome.stderr) == ("one\nthree\n", "two\n")
    assert str(last.outcome.value) == "42"


def test_output_comes_while_the_code_runs(session: Session) -> None:
    with session.stream(AWAIT_FILE) as stream:
        assert until_text(stream).text == "waiting\n"
        # The code waits for this, and this for the code's first line.
        session.files.put("go", b"")
        assert stream.wait().text == "waiting\nwent on\n"


def test_a_stream_and_an_answer_say_the_same(session: Session) -> None:
    code = "print('out'); display('shown'); 1 / 0"
    streamed, answered = session.stream(code).wait(), session.execute(code)
    for field in ("status", "stdout", "stderr", "value", "displays", "images"):
        assert getattr(streamed, field) == getattr(answered, field), field
    # Their tracebacks name different executions.
    assert streamed.exception is not None
    assert answered.exception is not None
    assert streamed.exception.type == answered.exception.type == "ZeroDivisionError"


def test_it_resumes_after_every_event(session: Session) -> None:
    with session.stream("for n in range(20): print(n, flush=True)") as stream:
        events = list(stream)
    assert stream.execution_id is not None
    for after in range(len(events)):
        again = list(session.events(stream.execution_id, after=after))
        assert [event.number for event in again] == [event.number for event in events[after:]]
        assert _text(again) == _text(events[after:])


def _text(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Stdout))


@pytest.mark.parametrize("cuts", [[0], [10], [200], [1000], [30_000], [300, 300, 300, 5000]])
def test_a_connection_may_break_anywhere(
    daemon: Daemon, session: Session, pauses: list[float], cuts: list[int]
) -> None:
    session.execute("ran = 0")
    relay = Relay(daemon, *cuts)
    try:
        # A cut may come before any event: then there is no progress.
        with Client(relay.url, max_retries=4) as client:
            outcome = client.attach(session.id).stream(f"ran += 1\n{COUNT}").wait()
    finally:
        relay.close()
    assert outcome.stdout == COUNTED
    assert relay.connections == len(cuts) + 1
    assert len(pauses) == len(cuts)
    assert str(session.execute("ran").value) == "1"


def test_an_answer_that_was_lost_is_asked_for_again(
    daemon: Daemon, session: Session, pauses: list[float]
) -> None:
    session.execute("ran = 0")
    relay = Relay(daemon, 0, 100)
    try:
        with Client(relay.url) as client:
            outcome = client.attach(session.id).execute(f"ran += 1\n{COUNT}\nran")
    finally:
        relay.close()
    assert (outcome.stdout, str(outcome.value)) == (COUNTED, "1")
    assert relay.connections == 3
    assert str(session.execute("ran").value) == "1"


def test_an_interrupt_keeps_variables(session: Session) -> None:
    with session.stream(f"x = 1\n{AWAIT_FILE}") as stream:
        until_text(stream)
        assert session.interrupt().execution_id == stream.execution_id
        outcome = stream.wait()
    assert (outcome.status, outcome.state) == ("interrupted", "preserved")
    assert str(session.execute("x").value) == "1"


def test_code_goes_on_without_its_client_unless_it_was_told_not_to(session: Session) -> None:
    with session.stream(AWAIT_FILE) as stream:
        until_text(stream)
    assert stream.execution_id is not None
    assert session.execution(stream.execution_id).state == "running"
    session.files.put("go", b"")
    assert session.events(stream.execution_id).wait().text == "waiting\nwent on\n"
    kept = session.execution(stream.execution_id)
    assert kept.done
    assert kept.outcome is not None
    assert kept.outcome.text == "waiting\nwent on\n"

    session.files.delete("go")
    with session.stream(AWAIT_FILE, cancel_on_disconnect=True) as stream:
        until_text(stream)
    assert stream.execution_id is not None
    # Not by its events: who asks for these is a client of it, for which it would go on.
    kept = session.execution(stream.execution_id)
    while not kept.done:
        time.sleep(0.01)
        kept = session.execution(stream.execution_id)
    assert kept.outcome is not None
    assert kept.outcome.status == "interrupted"


def test_a_run_is_remembered_after_its_session(real: Client) -> None:
    with real.stream("print('hello')") as stream:
        assert stream.wait().ok
    assert stream.session_id is not None
    assert stream.execution_id is not None
    gone = real.attach(stream.session_id)
    with pytest.raises(NotFound):
        gone.info()
    kept = gone.execution(stream.execution_id).outcome
    assert kept is not None
    assert kept.text == "hello\n"
    with pytest.raises(NotFound) as raised:
        gone.execution("no-such-execution")
    assert raised.value.code == "unknown_execution"


@pytest.fixture
def forgetful() -> Iterator[Daemon]:
    daemon = Daemon("[session]\nevent_buffer_bytes = 65536\n")
    yield daemon
    daemon.stop()


def test_events_that_are_gone(forgetful: Daemon) -> None:
    with Client(forgetful.url) as client, client.session() as session:
        with session.stream("for n in range(1000): print('x' * 1000, flush=True)") as stream:
            outcome = stream.wait()
        assert len(outcome.stdout) == 1001 * 1000
        assert stream.execution_id is not None
        with pytest.raises(EventsGone) as raised:
            session.events(stream.execution_id)
        assert raised.value.code == "events_gone"
        assert session.execution(stream.execution_id).done


def test_asyncio(daemon: Daemon) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client, client.session() as session:
            stream = session.stream(AWAIT_FILE)
            async for event in stream:
                if isinstance(event, Stdout) and event.text == "waiting\n":
                    await session.files.put("go", b"")
            assert stream.outcome is not None
            assert stream.outcome.text == "waiting\nwent on\n"
            streams = [client.stream(f"print({n})") for n in range(3)]
            outcomes = await asyncio.gather(*(stream.wait() for stream in streams))
            assert [outcome.text for outcome in outcomes] == ["0\n", "1\n", "2\n"]

    asyncio.run(main())
