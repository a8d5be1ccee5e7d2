"""What is sent again, and what never is."""

from __future__ import annotations

import io
from typing import Any, Callable

import pytest

from fake import DROP, Fake, Reply, js, problem
from samples import OUTCOME, SESSION
from vivarium_client import Client, Session, TransportError, errors

Use = Callable[[Session], object]


def _client(session: Session) -> Client:
    client = Client.__new__(Client)
    client._calls = session._calls
    return client


REPEATED: list[Use] = [
    lambda session: _client(session).session(idempotency_key="key"),
    lambda session: session.execute("1"),
    lambda session: session.command(["ls"]),
    lambda session: session.info(),
    lambda session: session.keepalive(),
    lambda session: session.complete("1"),
    lambda session: session.is_complete("1"),
    lambda session: session.execution("1"),
    lambda session: session.delete(),
    lambda session: session.contexts(),
    lambda session: session.context("a").delete(),
    lambda session: session.files.put("a", b"content"),
    lambda session: session.files.put("a", io.BytesIO(b"content")),
    lambda session: session.files.get("a"),
    lambda session: session.files.delete("a"),
    lambda session: list(session.files.list()),
]

ONCE: list[Use] = [
    # The daemon ends a session that nobody was told of.
    lambda session: _client(session).session(),
    lambda session: session.interrupt(),
    lambda session: session.reset(),
    lambda session: session.open_context("a"),
    lambda session: session.context("a").reset(),
    lambda session: session.context("a").interrupt(),
    lambda session: session.files.put("a", iter([b"con", b"tent"])),
]

ANSWER = {**OUTCOME, **SESSION, "entries": []}


@pytest.mark.parametrize("use", REPEATED)
@pytest.mark.parametrize("first", [DROP, Reply(200, b"{" * 100, cut_at=50)])
def test_what_is_idempotent_is_sent_again(
    fake: Fake, client: Client, pauses: list[float], use: Use, first: Reply
) -> None:
    fake.answers(first, first, js({**ANSWER, "state": "done"}))
    use(client.attach("demo"))
    one, two, three = fake.seen
    assert one == two == three
    assert 0 < pauses[0] <= 0.1 < pauses[1] * 2 <= 0.4


@pytest.mark.parametrize("use", ONCE)
def test_what_could_be_done_twice_is_not(
    fake: Fake, client: Client, pauses: list[float], use: Use
) -> None:
    fake.answer = lambda seen: DROP
    with pytest.raises(TransportError) as raised:
        use(client.attach("demo"))
    assert raised.value.reached
    assert (len(fake.seen), pauses) == (1, [])


def test_making_a_session_is_not_sent_again(fake: Fake, client: Client) -> None:
    fake.answer = lambda seen: DROP
    with pytest.raises(TransportError):
        client.session()
    assert len(fake.seen) == 1


def test_what_never_got_there_is_sent_again(pauses: list[float]) -> None:
    gone = Fake()
    gone.close()
    with Client(gone.url, max_retries=3) as client, pytest.raises(TransportError) as raised:
        client.session()
    assert not raised.value.reached
    assert len(pauses) == 3


def test_tries_are_bounded(fake: Fake, pauses: list[float]) -> None:
    fake.answer = lambda seen: DROP
    for max_retries in (0, 1, 5):
        fake.seen.clear()
        pauses.clear()
        with Client(fake.url, max_retries=max_retries) as client, pytest.raises(TransportError):
            client.host()
        assert (len(fake.seen), len(pauses)) == (max_retries + 1, max_retries)
    with pytest.raises(ValueError, match="max_retries"):
        Client(fake.url, max_retries=-1)


def test_refusals_for_now_are_waited_for(fake: Fake, client: Client, pauses: list[float]) -> None:
    full = problem(429, "too_many_sessions", **{"Retry-After": "5"})
    fake.answers(full, problem(503, "draining", **{"Retry-After": "2"}), js(SESSION))
    assert client.session().id == "demo"
    assert pauses == [5, 2]


def test_nobody_waits_for_too_long(fake: Fake, client: Client, pauses: list[float]) -> None:
    fake.answer = lambda seen: problem(429, "rate", **{"Retry-After": "3600"})
    with pytest.raises(errors.QuotaExceeded) as raised:
        client.session()
    assert (raised.value.retry_after, pauses) == (3600, [])


def test_the_quota_that_is_used_up_is_named(fake: Fake, client: Client) -> None:
    fake.answer = lambda seen: Reply(
        429,
        b'{"status": 429, "code": "quota_exceeded", "detail": "d", "quota": "execution_rate"}',
        {"Retry-After": "3600", "Content-Type": "application/problem+json"},
    )
    with pytest.raises(errors.QuotaExceeded) as raised:
        client.session()
    assert (raised.value.quota, raised.value.retry_after) == ("execution_rate", 3600)
    assert raised.value.code == "quota_exceeded"
    fake.answer = lambda seen: problem(429, "queue_full", **{"Retry-After": "3600"})
    with pytest.raises(errors.QuotaExceeded) as raised:
        client.session()
    assert raised.value.quota is None


def test_the_last_refusal_is_told(fake: Fake, client: Client, pauses: list[float]) -> None:
    fake.answer = lambda seen: problem(429, "queue_full", **{"Retry-After": "1"})
    with pytest.raises(errors.QuotaExceeded) as raised:
        client.attach("demo").execute("1")
    assert (raised.value.retry_after, pauses, len(fake.seen)) == (1, [1, 1], 3)


@pytest.mark.parametrize("status", [400, 404, 409, 422, 500, 502])
def test_other_refusals_are_final(
    fake: Fake, client: Client, pauses: list[float], status: int
) -> None:
    fake.answer = lambda seen: problem(status, "no")
    with pytest.raises(errors.ApiError):
        client.attach("demo").execute("1")
    assert (len(fake.seen), pauses) == (1, [])


def test_an_iterator_is_not_sent_half(fake: Fake, client: Client, pauses: list[float]) -> None:
    fake.answer = lambda seen: problem(429, "no_room", **{"Retry-After": "1"})
    content: Any = (part for part in [b"a", b"b"])
    with pytest.raises(errors.QuotaExceeded):
        client.attach("demo").files.put("a", content)
    assert (len(fake.seen), pauses) == (1, [])
