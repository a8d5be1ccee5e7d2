"""Streams give every event once and in order, wherever the connection ends."""

from __future__ import annotations

import asyncio
from typing import Optional

import pytest

from fake import DROP, Fake, Reply, Seen, problem
from samples import DONE, STREAM, sse
from vivarium_client import (
    AsyncClient,
    Client,
    Display,
    Done,
    Event,
    EventsGone,
    Outcome,
    QuotaExceeded,
    Result,
    Started,
    Stderr,
    Stdout,
    TransportError,
    UnexpectedAnswer,
)
from vivarium_client._sync.transport import BlockingBody

KNOWN = [1, 2, 3, 4, 5, 6, 8, 9, 10]
EVENTS = {"Content-Type": "text/event-stream"}
WHOLE = b"".join(STREAM)
KEEP_ALIVE = b": keep-alive\n\n"


class Daemon:
    """Serves `STREAM`, each connection cut where it is told."""

    def __init__(self, fake: Fake, *cuts: Optional[int]) -> None:
        self.cuts = iter(cuts)
        fake.answer = self.answer

    def answer(self, seen: Seen) -> Reply:
        if seen.method == "GET":
            assert seen.target == "/v1/sessions/demo/executions/7"
            body = b"".join(STREAM[int(seen.headers.get("Last-Event-ID", 0)) :])
        else:
            body = WHOLE
        assert seen.headers["Accept"] == "text/event-stream"
        return Reply(200, KEEP_ALIVE + body, EVENTS, cut_at=next(self.cuts, None))


def check(events: list[Event], outcome: Optional[Outcome]) -> None:
    assert [event.number for event in events] == KNOWN
    assert events[0] == Started(1, "7", "demo")
    assert [event.text for event in events if isinstance(event, Stdout)] == ["one\n", "three é\n"]
    assert [event.text for event in events if isinstance(event, Stderr)] == ["two\n"]
    kinds = [(event.kind, event.id) for event in events if isinstance(event, Display)]
    assert kinds == [("display", "d"), ("update", "d"), ("image", None)]
    assert [str(event.value) for event in events if isinstance(event, Result)] == ["42"]
    done = events[-1]
    assert isinstance(done, Done)
    assert outcome is done.outcome
    assert (outcome.stdout, outcome.stderr) == ("one\nthree é\n", "two\n")
    assert [shown.text for shown in outcome.displays] == ["new"]
    assert [image.mime_type for image in outcome.images] == ["image/png"]
    assert str(outcome.value) == "42"
    assert (outcome.ok, outcome.execution_id, outcome.duration_ms) == (True, "7", 0.2)


def test_a_stream(fake: Fake, client: Client) -> None:
    Daemon(fake)
    with client.attach("demo").stream("code") as stream:
        assert stream.outcome is None
        check(list(stream), stream.outcome)
        assert (stream.session_id, stream.execution_id) == ("demo", "7")
        assert next(stream, None) is None
    assert fake.seen[0].json() == {"code": "code"}


def test_it_goes_on_wherever_it_is_cut(fake: Fake, client: Client, pauses: list[float]) -> None:
    first_end = len(KEEP_ALIVE + STREAM[0])
    for cut in range(len(KEEP_ALIVE + WHOLE)):
        fake.seen.clear()
        Daemon(fake, cut)
        stream = client.attach("demo").stream("code")
        check(list(stream), stream.outcome)
        one, two = fake.seen
        if cut < first_end:
            # Nothing was known of the execution: the same request, by its key the same execution.
            assert one == two, cut
            assert "Idempotency-Key" in one.headers
        else:
            assert two.method == "GET", cut
    assert len(pauses) == len(KEEP_ALIVE + WHOLE)


def test_it_goes_on_however_often_it_is_cut(
    fake: Fake, client: Client, pauses: list[float]
) -> None:
    # Each connection brings one event or two.
    for size in (max(map(len, STREAM)), 2 * max(map(len, STREAM))):
        Daemon(fake, *[len(KEEP_ALIVE) + size] * len(STREAM))
        stream = client.attach("demo").stream("code")
        check(list(stream), stream.outcome)


def test_it_gives_up_where_nothing_comes(fake: Fake, client: Client, pauses: list[float]) -> None:
    Daemon(fake, len(KEEP_ALIVE + STREAM[0]), *[len(KEEP_ALIVE)] * 10)
    events: list[Event] = []
    with client.attach("demo").stream("code") as stream, pytest.raises(TransportError):
        events.extend(stream)
    assert [event.number for event in events] == [1]
    # Two further tries after the first event, and after those two none.
    assert [seen.method for seen in fake.seen] == ["POST", "GET", "GET"]
    assert len(pauses) == 2


def test_a_stream_that_ends_without_an_end_goes_on(
    fake: Fake, client: Client, pauses: list[float]
) -> None:
    fake.answers(Reply(200, STREAM[0], EVENTS), Reply(200, b"".join(STREAM[1:]), EVENTS))
    stream = client.attach("demo").stream("code")
    check(list(stream), stream.outcome)


def test_what_was_given_is_not_given_again(fake: Fake, client: Client, pauses: list[float]) -> None:
    fake.answers(Reply(200, WHOLE, EVENTS, cut_at=300), Reply(200, WHOLE, EVENTS))
    stream = client.attach("demo").stream("code")
    check(list(stream), stream.outcome)


def test_events_that_are_gone_are_told(fake: Fake, client: Client, pauses: list[float]) -> None:
    fake.answers(Reply(200, WHOLE, EVENTS, cut_at=300), problem(410, "events_gone"))
    stream = client.attach("demo").stream("code")
    with pytest.raises(EventsGone):
        list(stream)
    assert pauses == pauses[:1]


def test_refusals_are_told_at_once(fake: Fake, client: Client, pauses: list[float]) -> None:
    fake.answer = lambda seen: problem(429, "queue_full", **{"Retry-After": "1"})
    with pytest.raises(QuotaExceeded):
        client.attach("demo").stream("code")
    assert pauses == [1, 1]


def test_what_is_no_stream_is_told(fake: Fake, client: Client) -> None:
    fake.answer = lambda seen: Reply(200, b"{}", {"Content-Type": "application/json"})
    with pytest.raises(UnexpectedAnswer, match="asked for events"):
        client.attach("demo").stream("code")
    for bad in (sse(1, "stdout", "no object"), b"id: x\ndata: {}\n\n", b"data: {}\n\n"):
        fake.answers(Reply(200, bad, EVENTS))
        with pytest.raises(UnexpectedAnswer):
            list(client.attach("demo").stream("code"))


def test_attaching_to_an_execution(fake: Fake, client: Client) -> None:
    Daemon(fake)
    session = client.attach("demo")
    for after in range(len(STREAM)):
        stream = session.events("7", after=after)
        assert [event.number for event in stream] == [n for n in KNOWN if n > after]
        assert stream.outcome is not None
        assert stream.outcome.ok
    assert fake.seen[0].headers["Last-Event-ID"] == "0"
    assert fake.seen[9].headers["Last-Event-ID"] == "9"


def test_waiting_for_the_end(fake: Fake, client: Client) -> None:
    Daemon(fake)
    with client.stream("code") as stream:
        next(stream)
        assert stream.wait().text == "one\nthree é\n"
        assert stream.wait().ok
    with client.stream(shell="true") as stream:
        pass
    with pytest.raises(TransportError, match="closed"):
        stream.wait()
    assert list(stream) == []


def test_the_end_tells_that_the_session_was_rolled_back(fake: Fake, client: Client) -> None:
    end = {**DONE, "execution_id": "7", "status": "killed", "rolled_back": True}
    fake.answers(Reply(200, STREAM[0] + sse(2, "done", end), EVENTS))
    outcome = client.attach("demo").stream("code").wait()
    assert (outcome.status, outcome.state, outcome.rolled_back) == ("killed", "preserved", True)


def test_commands_and_runs_are_streamed_alike(fake: Fake, client: Client) -> None:
    Daemon(fake)
    for stream in (
        client.attach("demo").stream_command(["ls"], cwd="d"),
        client.stream(argv=["ls"], network="none"),
    ):
        check(list(stream), stream.outcome)
    assert [(seen.target, seen.json()) for seen in fake.seen] == [
        ("/v1/sessions/demo/commands", {"argv": ["ls"], "cwd": "d"}),
        ("/v1/run", {"argv": ["ls"], "network": "none"}),
    ]


def test_it_can_be_iterated_on_after_ctrl_c(
    fake: Fake, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    Daemon(fake, len(KEEP_ALIVE) + 300)
    stream = client.attach("demo").stream("code")
    events = [next(stream)]
    read = BlockingBody.read

    async def interrupted(body: BlockingBody) -> bytes:
        monkeypatch.setattr(BlockingBody, "read", read)
        raise KeyboardInterrupt

    monkeypatch.setattr(BlockingBody, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        events.extend(stream)
    events.extend(stream)
    assert [event.number for event in events] == KNOWN


def test_the_asyncio_stream(fake: Fake, pauses: list[float]) -> None:
    async def main() -> None:
        async with AsyncClient(fake.url) as client:
            for cut in range(0, len(KEEP_ALIVE + WHOLE), 97):
                Daemon(fake, cut)
                stream = client.attach("demo").stream("code")
                check([event async for event in stream], stream.outcome)
            async with client.stream("code") as stream:
                assert (await stream.wait()).ok
            fake.answer = lambda seen: DROP
            with pytest.raises(TransportError):
                await client.stream("code").wait()

    asyncio.run(main())
    assert pauses
