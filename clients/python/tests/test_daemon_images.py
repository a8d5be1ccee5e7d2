"""Suspending, resuming, branching and rolling back sessions of a real daemon, and their images."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon
from vivarium_client import AsyncClient, Client, Conflict, NotFound, Session


@pytest.fixture(scope="module")
def images() -> Iterator[Client]:
    daemon = Daemon("images = true\n")
    with Client(daemon.url) as client:
        # Sessions before that have an executed kernel.
        while "building" in str(client.host().environments[0].template):
            pass
        yield client
    daemon.stop()


@pytest.fixture
def session(images: Client) -> Iterator[Session]:
    with images.session() as session:
        yield session


def test_variables_survive_being_suspended(images: Client, session: Session) -> None:
    session.execute("x = iter([1, 2, 3]); next(x)")
    session.files.put("a.txt", "kept")
    image = session.suspend().image
    assert image is not None
    assert image.size_bytes > 0
    listed = [info for info in images.sessions() if info.id == session.id]
    assert [info.state for info in listed] == ["suspended"]
    # A GET does not resume it.
    assert session.info().image == image
    assert str(session.execute("next(x), open('a.txt').read()").value) == "(2, 'kept')"
    assert session.info().image is None


def test_resuming_a_session_that_is_awake_changes_nothing(session: Session) -> None:
    session.execute("x = 1")
    assert session.resume().state == "idle"
    assert str(session.execute("x").value) == "1"


def test_a_session_is_resumed_by_hand_where_that_was_asked_for(images: Client) -> None:
    with images.session(auto_resume=False) as session:
        session.execute("x = 1")
        image = session.suspend().image
        assert image is not None
        assert not image.auto_resume
        with pytest.raises(Conflict) as raised:
            session.execute("x")
        assert raised.value.code == "suspended"
        session.resume()
        assert str(session.execute("x").value) == "1"


def test_code_that_kills_its_kernel_is_undone(images: Client) -> None:
    with images.session(checkpoint="each", auto_rollback=True) as session:
        made = session.execute("x = 1")
        lost = session.execute("import os, signal; x = 2; os.kill(os.getpid(), signal.SIGKILL)")
        assert (lost.status, lost.state, lost.rolled_back) == ("killed", "preserved", True)
        assert str(session.execute("x").value) == "1"
        names = [checkpoint.name for checkpoint in session.checkpoints()]
        assert names[0] == f"after-{made.execution_id}"


def test_checkpoints_tell_which_variables_differ(images: Client) -> None:
    with images.session(checkpoint="each") as session:
        first = session.execute("x, rows = 1, [1]")
        second = session.execute("rows.append(2); y = x; del x")
        session.suspend()
        diff = session.checkpoint_diff(f"after-{second.execution_id}")
        assert diff.from_ == f"after-{first.execution_id}"
        told = [[one.name for one in part] for part in (diff.added, diff.removed, diff.changed)]
        assert (told, diff.more) == ([["y"], ["x"], ["rows"]], False)
        first_diff = session.checkpoint_diff(f"after-{first.execution_id}")
        assert (first_diff.from_, first_diff.added[0].type) == (None, "list")
        assert session.info().state == "suspended"


def test_branches_go_their_own_ways(session: Session) -> None:
    session.execute("x = [1]")
    first, second = session.branch(2)
    with first, second:
        first.execute("x.append(2)")
        values = [str(one.execute("x").value) for one in (session, first, second)]
        assert values == ["[1]", "[1, 2]", "[1]"]


def test_a_session_goes_back_to_a_checkpoint(session: Session) -> None:
    before = session.execute("x = 1")
    made = session.checkpoint("a")
    assert (made.name, str(made.executions)) == ("a", before.execution_id)
    assert made.size_bytes > 0
    with pytest.raises(Conflict):
        session.checkpoint("a")
    # It went on.
    assert session.execute("x = 2; open('b.txt', 'w').write('later')").ok
    assert [entry.path for entry in session.files.list()] == ["b.txt"]
    assert session.rollback("a").id == session.id
    assert str(session.execute("x").value) == "1"
    assert list(session.files.list()) == []
    # Otherwise the branch could have the present state.
    session.execute("x = 3")
    (branch,) = session.branch(checkpoint="a")
    with branch:
        assert str(branch.execute("x").value) == "1"
    assert str(session.execute("x").value) == "3"
    assert session.checkpoints() == [made]
    assert session.delete_checkpoint("a")
    assert session.checkpoints() == []
    assert not session.delete_checkpoint("a")
    with pytest.raises(NotFound) as raised:
        session.rollback("a")
    assert raised.value.code == "unknown_checkpoint"


def test_a_session_with_a_thread_says_what_is_in_the_way(session: Session) -> None:
    assert session.imageable().imageable
    session.execute("import threading; go = threading.Event()")
    session.execute("threading.Thread(target=go.wait).start()")
    answer = session.imageable()
    assert not answer.imageable
    assert "thread" in " ".join(answer.reasons)
    with pytest.raises(Conflict) as raised:
        session.suspend()
    assert raised.value.code == "not_imageable"
    assert session.execute("go.set()").ok


def test_an_image_goes_out_and_comes_in_under_another_id(
    images: Client, session: Session, tmp_path: Path
) -> None:
    session.execute("x = 6 * 7")
    with pytest.raises(Conflict) as raised:
        images.images.get(session.id)
    assert raised.value.code == "not_suspended"
    session.suspend()
    image = images.images.get(session.id)
    assert list(images.images.list()) == [image]
    assert (image.environment, image.executions, len(image.template)) == ("default", 1, 64)
    exported = tmp_path / "a.tar"
    assert images.images.export(session.id, exported) == exported.stat().st_size
    with pytest.raises(Conflict) as raised:
        images.images.import_(exported)
    assert raised.value.code == "session_exists"
    assert images.images.delete(session.id)
    assert not images.images.delete(session.id)
    with images.images.import_(exported, "another") as imported:
        assert (imported.id, imported.info().state) == ("another", "suspended")
        assert str(imported.execute("x").value) == "42"
    exported.write_bytes(exported.read_bytes()[:-2000])
    with pytest.raises(Conflict) as raised:
        images.images.import_(exported)
    assert raised.value.code == "image_failed"


def test_asyncio_takes_a_checkpoint_to_another_session(
    images: Client, session: Session, tmp_path: Path
) -> None:
    session.execute("x = 1")
    session.checkpoint("a")
    session.execute("x = 2")

    async def main() -> None:
        async with AsyncClient(images.url) as client:
            await client.images.export(session.id, tmp_path / "a.tar", checkpoint="a")
            async with client.images.import_(tmp_path / "a.tar", "another") as imported:
                assert [image.session_id async for image in client.images.list()] == ["another"]
                assert str((await imported.execute("x")).value) == "1"

    asyncio.run(main())
