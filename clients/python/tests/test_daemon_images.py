"""Suspending, resuming and branching sessions of a real daemon."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from daemon import Daemon
from vivarium_client import Client, Conflict, Session


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


def test_branches_go_their_own_ways(session: Session) -> None:
    session.execute("x = [1]")
    first, second = session.branch(2)
    with first, second:
        first.execute("x.append(2)")
        values = [str(one.execute("x").value) for one in (session, first, second)]
        assert values == ["[1]", "[1, 2]", "[1]"]


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
