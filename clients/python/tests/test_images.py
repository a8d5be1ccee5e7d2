"""Suspending, resuming, branching and rolling back sessions."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import partial

import pytest

from fake import DROP, Fake, Reply, js, problem
from samples import CHECKPOINT, IMAGE, SESSION
from vivarium_client import Checkpoint, Client, errors


def test_a_session_is_suspended_and_resumed(fake: Fake, client: Client) -> None:
    fake.answers(js({**SESSION, "state": "suspended", "image": IMAGE}), js(SESSION))
    session = client.attach("demo")
    suspended = session.suspend()
    assert suspended.state == "suspended"
    assert suspended.image is not None
    assert (suspended.image.size_bytes, suspended.image.expires_at) == (39841, None)
    assert suspended.image.suspended_at.minute == 3
    assert session.resume().image is None
    assert [seen.target for seen in fake.seen] == [
        "/v1/sessions/demo/suspend",
        "/v1/sessions/demo/resume",
    ]


def test_branches_are_sessions_that_delete_themselves(fake: Fake, client: Client) -> None:
    made = [{**SESSION, "id": "a"}, {**SESSION, "id": "b"}]
    fake.answers(js({"sessions": made}, status=201), Reply(204, b""))
    first, second = client.attach("demo").branch(2)
    with first:
        pass
    assert (first.id, second.id) == ("a", "b")
    assert [(seen.method, seen.target) for seen in fake.seen] == [
        ("POST", "/v1/sessions/demo/branch"),
        ("DELETE", "/v1/sessions/a"),
    ]
    assert fake.seen[0].json() == {"count": 2}


def test_checkpoints_are_made_listed_and_deleted(fake: Fake, client: Client) -> None:
    later = {**CHECKPOINT, "name": "c-2"}
    fake.answers(
        js(CHECKPOINT, status=201),
        js(later, status=201),
        js({"checkpoints": [CHECKPOINT, later]}),
        Reply(204, b""),
        problem(404, "unknown_checkpoint"),
    )
    session = client.attach("demo")
    made = session.checkpoint("before")
    assert made == Checkpoint("before", datetime(2026, 11, 28, 1, 2, 3, 0, timezone.utc), 39841, 4)
    chosen = session.checkpoint()
    assert chosen.name == "c-2"
    assert session.checkpoints() == [made, chosen]
    assert session.delete_checkpoint("../a b") is True
    assert session.delete_checkpoint("..") is False
    assert [(seen.method, seen.target) for seen in fake.seen] == [
        ("POST", "/v1/sessions/demo/checkpoints"),
        ("POST", "/v1/sessions/demo/checkpoints"),
        ("GET", "/v1/sessions/demo/checkpoints"),
        ("DELETE", "/v1/sessions/demo/checkpoints/..%2Fa%20b"),
        ("DELETE", "/v1/sessions/demo/checkpoints/%2E%2E"),
    ]
    assert [seen.json() for seen in fake.seen[:2]] == [{"name": "before"}, {}]


def test_a_session_goes_back_to_a_checkpoint(fake: Fake, client: Client) -> None:
    made = {"sessions": [{**SESSION, "id": "a"}]}
    fake.answers(js(SESSION), js(made, status=201), problem(404, "unknown_checkpoint"))
    session = client.attach("demo")
    assert session.rollback("before").state == "idle"
    assert [one.id for one in session.branch(checkpoint="before")] == ["a"]
    with pytest.raises(errors.NotFound) as raised:
        session.rollback("after")
    assert raised.value.code == "unknown_checkpoint"
    assert [(seen.target, seen.json()) for seen in fake.seen] == [
        ("/v1/sessions/demo/rollback", {"checkpoint": "before"}),
        ("/v1/sessions/demo/branch", {"count": 1, "checkpoint": "before"}),
        ("/v1/sessions/demo/rollback", {"checkpoint": "after"}),
    ]


def test_a_checkpoint_that_cannot_be_made_says_why(
    fake: Fake, client: Client, pauses: list[float]
) -> None:
    session = client.attach("demo")
    refusals: list[tuple[int, str, type[errors.ApiError]]] = [
        (409, "conflict", errors.Conflict),
        (409, "not_imageable", errors.Conflict),
        (429, "images_full", errors.QuotaExceeded),
    ]
    for status, code, kind in refusals:
        # A 429 is asked for again, twice.
        fake.answers(*[problem(status, code)] * 3)
        with pytest.raises(kind) as raised:
            session.checkpoint("before")
        assert raised.value.code == code
    assert len(pauses) == 2


def test_what_is_in_the_way_is_told(fake: Fake, client: Client) -> None:
    fake.answers(
        js({"imageable": False, "reasons": ["2 processes run beside its kernel: end them"]}),
        problem(409, "not_imageable"),
    )
    session = client.attach("demo")
    answer = session.imageable()
    assert not answer.imageable
    assert answer.reasons == ("2 processes run beside its kernel: end them",)
    with pytest.raises(errors.Conflict) as raised:
        session.suspend()
    assert raised.value.code == "not_imageable"


def test_only_what_changes_nothing_twice_is_sent_again(
    fake: Fake, client: Client, pauses: list[float]
) -> None:
    session = client.attach("demo")
    fake.answers(DROP, js(SESSION))
    assert session.resume().id == "demo"
    fake.answers(DROP, js({"checkpoints": []}), DROP, Reply(204, b""))
    assert session.checkpoints() == []
    assert session.delete_checkpoint("before")
    assert (len(fake.seen), len(pauses)) == (6, 3)
    rollback = partial(session.rollback, "before")
    for call in (session.suspend, session.branch, session.checkpoint, rollback):
        fake.answers(DROP)
        with pytest.raises(errors.TransportError):
            call()
    assert (len(fake.seen), len(pauses)) == (10, 3)
