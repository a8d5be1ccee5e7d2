"""The asyncio client: the same calls over its own transport."""

from __future__ import annotations

import asyncio
import inspect
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import vivarium_client
from fake import DROP, Fake, Reply, Seen, js, problem
from samples import CHECKPOINT, CHECKPOINT_DIFF, IMAGE, OUTCOME, SESSION, STORED_IMAGE
from vivarium_client import AsyncClient, TransportError, errors

PAIRS = ["Client", "Session", "Files", "Images", "EventStream"]


def public(name: str) -> dict[str, Any]:
    members = vars(getattr(vivarium_client, name))
    return {name: member for name, member in members.items() if not name.startswith("_")}


@pytest.mark.parametrize("name", PAIRS)
def test_both_clients_have_the_same_calls(name: str) -> None:
    blocking, awaited = public(name), public(f"Async{name}")
    assert blocking.keys() == awaited.keys()
    for call, member in blocking.items():
        if inspect.isfunction(member):
            one, other = inspect.signature(member), inspect.signature(awaited[call])
            assert list(one.parameters) == list(other.parameters), call
            for parameter in one.parameters.values():
                twin = other.parameters[parameter.name]
                assert (parameter.kind, parameter.default) == (twin.kind, twin.default), call
        assert (member.__doc__ is None) == (awaited[call].__doc__ is None), call


def test_the_calls(fake: Fake) -> None:
    def answer(seen: Seen) -> Reply:
        if seen.method == "DELETE":
            return Reply(204, b"")
        where = seen.target.partition("?")[0].removeprefix("/v1/")
        interrupt = {"execution_id": "1", "interrupted": True, "detail": ""}
        answers: dict[str, Any] = {
            "run": OUTCOME,
            "host": {"version": "1"},
            "sessions": SESSION if seen.method == "POST" else {"sessions": [SESSION]},
            "sessions/demo": SESSION,
            "sessions/demo/execute": OUTCOME,
            "sessions/demo/commands": OUTCOME,
            "sessions/demo/executions/1": {"state": "done", "outcome": OUTCOME},
            "sessions/demo/interrupt": interrupt,
            "sessions/demo/reset": {"ended_execution_id": None},
            "sessions/demo/keepalive": {"expires_at": "2026-01-01T00:00:00Z"},
            "sessions/demo/suspend": {**SESSION, "state": "suspended", "image": IMAGE},
            "sessions/demo/resume": SESSION,
            "sessions/demo/branch": {"sessions": [{**SESSION, "id": "branch"}]},
            "sessions/demo/checkpoints": CHECKPOINT
            if seen.method == "POST"
            else {"checkpoints": [CHECKPOINT]},
            "sessions/demo/checkpoints/after/diff": CHECKPOINT_DIFF,
            "sessions/demo/rollback": SESSION,
            "images": SESSION if seen.method == "POST" else {"images": [STORED_IMAGE]},
            "images/demo": STORED_IMAGE,
            "images/demo/export": {},
            "sessions/demo/imageable": {"imageable": True, "reasons": []},
            "sessions/demo/previews": {"url": "a", "expires_at": "2026-01-01T00:00:00Z"},
            "sessions/demo/complete": {"matches": [], "start": 1, "end": 1},
            "sessions/demo/inspect": {"found": False},
            "sessions/demo/is_complete": {"status": "complete", "indent": ""},
        }
        return js(answers[where])

    async def main() -> None:
        async with AsyncClient(fake.url) as client:
            assert (await client.run("1")).ok
            assert (await client.host()).version == "1"
            assert [info.id async for info in client.sessions()] == ["demo"]
            async with client.session() as session:
                assert (await session.execute("1")).ok
                assert (await session.command(shell="true")).ok
                assert (await session.execution("1")).done
                assert (await session.interrupt()).interrupted
                assert (await session.reset()).ended_execution_id is None
                assert (await session.keepalive()).year == 2026
                assert (await session.suspend()).image is not None
                assert (await session.resume()).image is None
                assert [branch.id for branch in await session.branch()] == ["branch"]
                assert [branch.id for branch in await session.branch(checkpoint="a")] == ["branch"]
                assert (await session.checkpoint()).name == "before"
                assert [kept.name for kept in await session.checkpoints()] == ["before"]
                assert (await session.checkpoint_diff("after")).added[0].name == "rows"
                assert (await session.rollback("before")).id == "demo"
                assert await session.delete_checkpoint("before")
                assert (await session.imageable()).imageable
                assert (await session.preview(80)).url == "a"
                assert (await session.complete("a")).start == 1
                assert not (await session.inspect("a")).found
                assert (await session.is_complete("a")).status == "complete"
                assert (await session.info()).id == "demo"
            assert fake.seen[-1].method == "DELETE"
            assert [image.session_id async for image in client.images.list()] == ["demo"]
            assert (await client.images.get("demo")).executions == 2
            assert await client.images.delete("demo")
            buffer = io.BytesIO()
            assert await client.images.export("demo", buffer) == len(buffer.getvalue()) == 2
            async with client.images.import_(buffer, "demo") as session:
                assert session.id == "demo"
            assert fake.seen[-1].method == "DELETE"
            kept = await client.session()
            assert fake.seen[-1].method == "POST"
            assert await kept.delete()

    fake.answer = answer
    asyncio.run(main())


def test_files(fake: Fake, tmp_path: Path, pauses: list[float]) -> None:
    content = bytes(range(256)) * 5000
    local = tmp_path / "local"
    local.write_bytes(content)

    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(content), 100_000):
            yield content[at : at + 100_000]

    async def main() -> None:
        async with AsyncClient(fake.url) as client:
            files = client.attach("demo").files
            fake.answers(*[Reply(201)] * 5)
            for source in (content, local, io.BytesIO(content), iter([content]), parts()):
                await files.put("a", source)
            assert [seen.body for seen in fake.seen] == [content] * 5
            fake.answers(DROP, Reply(201), Reply(200))
            await files.put("a", local)
            await files.put_tar(content)
            assert [seen.body for seen in fake.seen[5:]] == [content] * 3
            fake.answer = lambda seen: Reply(200, content, {"Content-Type": "text/csv"})
            assert await files.get("a") == content
            assert await files.download("a", tmp_path / "b") == len(content)
            assert (tmp_path / "b").read_bytes() == content
            async with files.open("a") as file:
                assert (file.size_bytes, file.mime_type) == (len(content), "text/csv")
                assert b"".join([chunk async for chunk in file]) == content
            with pytest.raises(ValueError, match="not open"):
                await files.open("a").read()
            fake.answers(js({"entries": [{"path": "a"}], "next": "a"}), js({"entries": []}))
            assert [entry.path async for entry in files.list()] == ["a"]
            fake.answer = lambda seen: problem(404, "unknown_file")
            with pytest.raises(errors.NotFound):
                await files.delete("a")

    asyncio.run(main())
    assert len(pauses) == 1


def test_a_call_can_be_cancelled(fake: Fake) -> None:
    async def main() -> None:
        asked = asyncio.Event()
        go_on = asyncio.Event()
        loop = asyncio.get_running_loop()

        def answer(seen: Seen) -> Reply:
            loop.call_soon_threadsafe(asked.set)
            asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result()
            return js(OUTCOME)

        fake.answer = answer
        async with AsyncClient(fake.url) as client:
            call = asyncio.create_task(client.run("1"))
            await asked.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            go_on.set()
            fake.answer = lambda seen: js(OUTCOME)
            assert (await client.run("1")).ok

    asyncio.run(main())


def test_failures(fake: Fake, pauses: list[float]) -> None:
    async def main() -> None:
        async with AsyncClient(fake.url) as client:
            fake.answer = lambda seen: DROP
            with pytest.raises(TransportError):
                await client.run("1")
            fake.answer = lambda seen: problem(503, "draining", **{"Retry-After": "3"})
            with pytest.raises(errors.Draining):
                await client.session()
            fake.answers(js(SESSION), problem(500, "internal"))
            with pytest.raises(KeyError):
                async with client.session():
                    raise KeyError

    asyncio.run(main())
    assert pauses[2:] == [3, 3]
