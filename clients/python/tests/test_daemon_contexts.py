"""Against a real daemon: several kernels in a session."""

from __future__ import annotations

import asyncio

import pytest

from daemon import Daemon
from vivarium_client import (
    AsyncClient,
    Client,
    Conflict,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    Session,
    Stdout,
)

# Runs until somebody makes a file.
AWAIT_FILE = "import os, time\nprint('on')\nwhile not os.path.exists('go'): time.sleep(0.01)"


def test_contexts_have_variables_of_their_own_and_share_files(session: Session) -> None:
    with session.open_context("other") as other:
        assert (other.id, other.session_id) == ("other", session.id)
        session.execute("x = 1; open('f', 'w').write('of main')")
        outcome = other.execute("'x' in globals(), open('f').read()")
        assert str(outcome.value) == "(False, 'of main')"
        assert outcome.kernel is not None
        assert outcome.kernel.context == "other"
        other.execute("x = 2")
        assert str(session.execute("x").value) == "1"
        assert str(session.execute("x", context="other").value) == "2"
        assert str(session.context("other").execute("x").value) == "2"
        assert str(session.context("main").execute("x").value) == "1"
        assert [context.id for context in session.contexts()] == ["main", "other"]
        info = other.info()
        assert (info.state, info.generation, info.running, info.queued) == ("idle", 1, None, 0)
    assert [context.id for context in session.contexts()] == ["main"]


def test_contexts_run_at_the_same_time(session: Session) -> None:
    other = session.open_context()
    with session.stream(AWAIT_FILE) as main:
        next(event for event in main if isinstance(event, Stdout))
        # It would wait for ever behind the code in `main`.
        assert str(other.execute("1 + 1").value) == "2"
        assert [context.state for context in session.contexts()] == ["running", "idle"]
        with other.stream(AWAIT_FILE) as beside:
            next(event for event in beside if isinstance(event, Stdout))
            assert other.info().running == beside.execution_id
            with pytest.raises(Conflict) as busy:
                other.complete("pri")
            assert busy.value.code == "busy"
            session.files.put("go", "")
            assert beside.wait().ok
        assert main.wait().ok


def test_questions_about_code_are_for_the_context_that_is_named(session: Session) -> None:
    with session.open_context("other") as other:
        other.execute("def only_there(a): pass")
        assert not session.complete("only_th").matches
        assert (
            session.complete("only_th", context="other").matches
            == other.complete("only_th").matches
        )
        assert other.complete("only_th").matches[0].text.startswith("only_there")
        assert not session.inspect("only_there").found
        assert session.inspect("only_there", context="other") == other.inspect("only_there")
        assert other.inspect("only_there").found
        assert session.is_complete("1 +", context="other") == other.is_complete("1 +")


def test_a_context_is_interrupted_alone(session: Session) -> None:
    other = session.open_context()
    with session.stream(AWAIT_FILE) as main, other.stream(AWAIT_FILE) as beside:
        for stream in (main, beside):
            next(event for event in stream if isinstance(event, Stdout))
        assert other.interrupt().execution_id == beside.execution_id
        assert beside.wait().status == "interrupted"
        assert session.contexts()[0].state == "running"
        session.files.put("go", "")
        assert main.wait().ok
    assert not other.interrupt().interrupted


def test_a_context_is_reset_alone(session: Session) -> None:
    other = session.open_context("other")
    session.execute("x = 1")
    with other.stream(AWAIT_FILE) as running:
        next(event for event in running if isinstance(event, Stdout))
        reset = other.reset()
        assert (reset.context, reset.ended_execution_id) == ("other", running.execution_id)
        assert (running.wait().status, reset.scope) == ("killed", "context")
    assert str(session.execute("x").value) == "1"
    assert other.info().generation == 2
    other.execute("y = 1")
    reset = session.reset()
    assert (reset.context, reset.ended_execution_id, reset.scope) == ("main", None, "context")
    assert str(other.execute("y").value) == "1"


def test_a_context_is_deleted_with_what_it_runs(session: Session) -> None:
    other = session.open_context("other")
    session.execute("x = 1")
    with other.stream(AWAIT_FILE) as running:
        next(event for event in running if isinstance(event, Stdout))
        assert other.delete()
        outcome = running.wait()
    assert (outcome.status, outcome.cause) == ("killed", "deleted")
    assert not other.delete()
    assert str(session.execute("x").value) == "1"
    assert session.open_context("other").execute("1").ok


def test_a_command_survives_a_reset_if_it_is_to(session: Session) -> None:
    survivor = session.start(["sleep", "1000"], survives_reset=True)
    other = session.start(["sleep", "1000"])
    session.reset()
    assert other.wait().cause == "reset"
    assert survivor.poll() is None
    assert survivor.kill()


def test_contexts_that_can_not_be_are_refused_in_words(daemon: Daemon) -> None:
    with Client(daemon.url, max_retries=0) as client, client.session() as session:
        none = session.context("none")
        for call in (none.info, none.reset, none.interrupt, lambda: none.execute("1")):
            with pytest.raises(NotFound) as unknown:
                call()
            assert unknown.value.code == "unknown_context"
        with pytest.raises(Conflict) as main:
            session.context("main").delete()
        assert main.value.code == "main_context"
        with pytest.raises(Conflict) as taken:
            session.open_context("main")
        assert taken.value.code == "context_exists"
        with pytest.raises(InvalidRequest) as bad:
            session.open_context("a b")
        assert (bad.value.code, bad.value.field) == ("invalid_field", "id")
        for _ in range(15):
            session.open_context()
        with pytest.raises(QuotaExceeded) as full:
            session.open_context()
        assert full.value.code == "too_many_contexts"


def test_asyncio(daemon: Daemon) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client, client.session() as session:
            other = await session.open_context("other")
            async with session.open_context() as third:
                await asyncio.gather(session.execute("x = 1"), other.execute("x = 2"))
                values = [await one.execute("x") for one in (session, other, third)]
                assert [str(one.value) for one in values] == ["1", "2", "None"]
                assert [one.id for one in await session.contexts()] == ["main", "other", third.id]
            waiting = asyncio.create_task(session.execute(AWAIT_FILE))
            async with other.stream("open('go', 'w').close(); x") as stream:
                assert str((await stream.wait()).value) == "2"
            assert (await waiting).ok
            assert (await other.complete("x")).start == 0
            assert (await other.inspect("x")).found
            assert (await other.is_complete("x")).status == "complete"
            assert not (await other.interrupt()).interrupted
            assert (await other.reset()).scope == "context"
            assert (await other.info()).generation == 2
            assert await session.context("other").delete()
            with pytest.raises(NotFound):
                await other.execute("1")

    asyncio.run(main())
