"""Suspending, resuming, branching and rolling back sessions, and images by themselves."""

from __future__ import annotations

import asyncio
import io
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fake import DROP, Fake, Reply, js, problem
from samples import CHECKPOINT, CHECKPOINT_DIFF, IMAGE, SESSION, STORED_IMAGE
from vivarium_client import AsyncClient, Checkpoint, CheckpointDiff, Client, StoredImage, errors
from vivarium_client.models import Variable


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


def test_checkpoints_are_compared(fake: Fake, client: Client) -> None:
    nothing = {"from": None, "to": "a b", "more": True}
    fake.answers(js(CHECKPOINT_DIFF), js(nothing), problem(404, "unknown_checkpoint"))
    session = client.attach("demo")
    added, changed = Variable("rows", "list"), Variable("frame", "pandas.DataFrame")
    diff = session.checkpoint_diff("after", from_="before")
    assert diff == CheckpointDiff("before", "after", (added,), (), (changed,), False)
    assert session.checkpoint_diff("a b") == CheckpointDiff(None, "a b", (), (), (), True)
    with pytest.raises(errors.NotFound):
        session.checkpoint_diff("..", "a&b")
    assert [(seen.method, seen.target) for seen in fake.seen] == [
        ("GET", "/v1/sessions/demo/checkpoints/after/diff?from=before"),
        ("GET", "/v1/sessions/demo/checkpoints/a%20b/diff"),
        ("GET", "/v1/sessions/demo/checkpoints/%2E%2E/diff?from=a%26b"),
    ]


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
        (409, "checkpoint_exists", errors.Conflict),
        (409, "checkpoints_off", errors.Conflict),
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


def test_a_session_asks_for_its_checkpoints(fake: Fake, client: Client) -> None:
    fake.answers(js(SESSION, status=201), js(SESSION, status=201), js(SESSION, status=201))
    client.session(checkpoint="each", auto_rollback=True)
    client.session(checkpoint="off", auto_rollback=False, auto_resume=False)
    client.session()

    async def main() -> None:
        async with AsyncClient(client.url) as asking:
            await asking.session(checkpoint="named", auto_rollback=True)

    fake.answers(js(SESSION, status=201))
    asyncio.run(main())
    assert [seen.json() for seen in fake.seen] == [
        {"checkpoint": "each", "auto_rollback": True},
        {"checkpoint": "off", "auto_rollback": False, "auto_resume": False},
        {},
        {"checkpoint": "named", "auto_rollback": True},
    ]


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


def test_images_are_listed_shown_and_deleted(fake: Fake, client: Client) -> None:
    fake.answers(
        js({"images": [STORED_IMAGE], "next": "demo"}),
        js({"images": [{**STORED_IMAGE, "session_id": "b"}], "next": None}),
        js(STORED_IMAGE),
        problem(409, "not_suspended"),
        Reply(204, b""),
        problem(404, "unknown_session"),
        problem(409, "not_suspended"),
    )
    first, second = client.images.list()
    suspended_at = datetime(2026, 1, 1, 12, 3, 0, 0, timezone.utc)
    assert first == StoredImage("demo", "default", "5f" * 32, 2, 39841, suspended_at, None, True)
    assert second.session_id == "b"
    assert client.images.get("demo") == first
    with pytest.raises(errors.Conflict) as raised:
        client.images.get("demo")
    assert raised.value.code == "not_suspended"
    assert client.images.delete("../a b") is True
    assert client.images.delete("..") is False
    with pytest.raises(errors.Conflict):
        client.images.delete("demo")
    assert [(seen.method, seen.target) for seen in fake.seen] == [
        ("GET", "/v1/images"),
        ("GET", "/v1/images?after=demo"),
        ("GET", "/v1/images/demo"),
        ("GET", "/v1/images/demo"),
        ("DELETE", "/v1/images/..%2Fa%20b"),
        ("DELETE", "/v1/images/%2E%2E"),
        ("DELETE", "/v1/images/demo"),
    ]


TAR = bytes(range(256)) * 5000


def test_an_image_is_exported_whole_or_not_at_all(
    fake: Fake, client: Client, tmp_path: Path
) -> None:
    target = tmp_path / "demo.tar"
    fake.answer = lambda seen: Reply(200, TAR, {"Content-Type": "application/x-tar"})
    assert client.images.export("demo", target) == len(TAR)
    assert target.read_bytes() == TAR
    buffer = io.BytesIO()
    assert client.images.export("demo", buffer, checkpoint="a b") == len(TAR)
    assert buffer.getvalue() == TAR
    target.write_bytes(b"before")
    fake.answers(Reply(200, TAR, cut_at=len(TAR) - 1), problem(409, "not_suspended"))
    with pytest.raises(errors.TransportError):
        client.images.export("demo", target)
    with pytest.raises(errors.Conflict):
        client.images.export("demo", str(target))
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]
    assert [seen.target for seen in fake.seen] == [
        "/v1/images/demo/export",
        "/v1/images/demo/export?checkpoint=a+b",
        "/v1/images/demo/export",
        "/v1/images/demo/export",
    ]


def test_an_image_is_imported_from_anywhere(fake: Fake, client: Client, tmp_path: Path) -> None:
    local = tmp_path / "demo.tar"
    local.write_bytes(TAR)
    made = js({**SESSION, "state": "suspended"}, status=201)
    sources: list[Any] = [local, str(local), io.BytesIO(TAR), TAR, iter([TAR])]
    fake.answers(*[made] * len(sources), Reply(204, b""))
    sessions = [client.images.import_(source, "demo") for source in sources]
    for seen in fake.seen:
        assert (seen.method, seen.target) == ("POST", "/v1/images?id=demo")
        assert seen.headers["Content-Type"] == "application/x-tar"
        assert seen.body == TAR
    with sessions[0] as session:
        assert session.id == "demo"
    assert fake.seen[-1].method == "DELETE"


def test_an_image_is_imported_once(fake: Fake, client: Client, pauses: list[float]) -> None:
    fake.answers(DROP)
    with pytest.raises(errors.TransportError):
        client.images.import_(TAR)
    assert [seen.target for seen in fake.seen] == ["/v1/images"]
    refusals: list[tuple[int, str, type[errors.ApiError]]] = [
        (409, "image_failed", errors.Conflict),
        (409, "session_exists", errors.Conflict),
        (422, "invalid_field", errors.InvalidRequest),
        (429, "images_full", errors.QuotaExceeded),
    ]
    for status, code, kind in refusals:
        # A 429 is asked for again, twice.
        fake.answers(*[problem(status, code)] * 3)
        with pytest.raises(kind) as raised:
            client.images.import_(TAR)
        assert raised.value.code == code
    assert len(pauses) == 2
