"""Suspending, resuming and branching sessions."""

from __future__ import annotations

import pytest

from fake import DROP, Fake, Reply, js, problem
from samples import IMAGE, SESSION
from vivarium_client import Client, errors


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
    for call in (session.suspend, session.branch):
        fake.answers(DROP)
        with pytest.raises(errors.TransportError):
            call()
    assert (len(fake.seen), len(pauses)) == (4, 1)
