"""Against a real daemon: files and commands."""

from __future__ import annotations

import asyncio
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from daemon import Daemon
from vivarium_client import AsyncClient, Client, FileEntry, Files, Session, Stdout, errors

# More than any buffer on the way.
CONTENT = bytes(range(256)) * (20 << 12)


@pytest.fixture
def files(session: Session) -> Files:
    return session.files


def test_up_and_down(session: Session, files: Files, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(CONTENT)
    for content in (CONTENT, local, iter([CONTENT[:1000], CONTENT[1000:]])):
        files.put("d/e/big.bin", content)
        digest = session.execute(
            "import hashlib; hashlib.sha256(open('d/e/big.bin', 'rb').read()).hexdigest()"
        ).value
        assert str(digest) == repr(hashlib.sha256(CONTENT).hexdigest())
    assert files.get("d/e/big.bin") == CONTENT
    assert files.download("d/e/big.bin", tmp_path / "copy") == len(CONTENT)
    assert (tmp_path / "copy").read_bytes() == CONTENT
    with files.open("d/e/big.bin") as file:
        assert file.size_bytes == len(CONTENT)
        assert file.read(10) == CONTENT[:10]
        assert file.read() == CONTENT[10:]


def test_parts(files: Files) -> None:
    files.put("a", CONTENT)
    assert files.get("a", offset=1000, length=3) == CONTENT[1000:1003]
    assert files.get("a", length=3) == CONTENT[:3]
    assert files.get("a", offset=len(CONTENT) - 3) == CONTENT[-3:]
    with pytest.raises(errors.InvalidRequest) as raised:
        files.get("a", offset=len(CONTENT))
    assert raised.value.status == 416


def test_text_and_odd_names(session: Session, files: Files) -> None:
    for name in ("é ü.txt", "a b?c#d%2Fe", "..x", "new\nline", "\u4e2d/\u6587"):
        files.put(name, f"in {name}")
        assert files.get(name).decode() == f"in {name}"
        assert str(session.execute(f"open({name!r}).read()").value) == repr(f"in {name}")


def own(entries: Iterable[FileEntry]) -> list[FileEntry]:
    """Entries but for `.tmp`, which every session has: its TMPDIR."""
    return [entry for entry in entries if entry.path != ".tmp"]


def test_lists(files: Files) -> None:
    for name in ("b.csv", "a/c.txt", "a/d/e"):
        files.put(name, "1")
    assert [(entry.path, entry.kind) for entry in own(files.list())] == [
        ("a", "directory"),
        ("b.csv", "file"),
    ]
    everything = own(files.list(recursive=True))
    assert [entry.path for entry in everything] == ["a", "a/c.txt", "a/d", "a/d/e", "b.csv"]
    assert everything[-1].size_bytes == 1
    assert everything[-1].mime_type == "text/csv"
    assert everything[-1].modified_at is not None
    assert [entry.path for entry in files.list("a")] == ["a/c.txt", "a/d"]


def test_long_lists_come_whole(session: Session, files: Files) -> None:
    session.execute("for n in range(5000): open(f'{n:05}', 'w').close()")
    assert [entry.path for entry in own(files.list())] == [f"{n:05}" for n in range(5000)]


def test_archives(files: Files) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in ("a", "d/b"):
            member = tarfile.TarInfo(name)
            member.size = len(CONTENT)
            archive.addfile(member, io.BytesIO(CONTENT))
    files.put_tar(buffer.getvalue())
    files.put_tar(buffer.getvalue(), "into")
    for name in ("a", "d/b", "into/a", "into/d/b"):
        assert files.get(name) == CONTENT
    with pytest.raises(errors.InvalidRequest):
        files.put_tar(b"no archive" * 1000)


def test_deleting(files: Files) -> None:
    files.put("d/a", "1")
    files.delete("d")
    assert own(files.list()) == []
    for use in (
        lambda: files.delete("d"),
        lambda: files.get("d/a"),
        lambda: files.open("d/a"),
        lambda: list(files.list("d")),
    ):
        with pytest.raises(errors.NotFound):
            use()


def test_absolute_paths(session: Session, files: Files) -> None:
    for name, shown in (
        ("/workspace/a", "a"),
        ("/mnt/data/d/b", "d/b"),
        ("/tmp/c d/e", "/tmp/c d/e"),
    ):
        files.put(name, "content")
        assert session.execute(f"open({name!r}).read()").ok
        assert files.get(name) == b"content"
        directory = shown.rpartition("/")[0]
        assert shown in [entry.path for entry in files.list(directory)]
        files.delete(name)


def test_entries(session: Session, files: Files) -> None:
    files.make_directory("d/e")
    files.put("a", "abc")
    assert files.move("a", "d/b").path == "d/b"
    assert files.chmod("d/b", 0o640).mode == "0640"
    assert (files.stat("d/b").size_bytes, files.stat("d/e").kind) == (3, "directory")
    with tarfile.open(fileobj=io.BytesIO(files.get("d"))) as tar:
        assert sorted(tar.getnames()) == [".", "b", "e"]
    files.put("c", "c")
    with pytest.raises(errors.Conflict):
        files.move("c", "d/b")
    assert files.move("c", "d/b", replace=True).size_bytes == 1
    outcome = session.execute("import os; print(oct(os.stat('d/b').st_mode))")
    assert outcome.stdout == "0o100644\n"


def test_watching(session: Session, files: Files) -> None:
    with files.watch() as events:
        assert session.execute("open('a', 'w').close()").ok
        first = next(events)
        assert (first.type, first.path, first.directory) == ("created", "a", False)
        files.move("a", "b")
        moved = next(events)
        assert (moved.type, moved.moved_from, moved.path) == ("moved", "a", "b")
    with pytest.raises(errors.NotFound):
        files.watch("none")


def test_nothing_outside_can_be_reached(session: Session, files: Files) -> None:
    session.execute("import os; os.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'dir')")
    outside = ["../x", "/etc/passwd", "a/../../x", "dir/passwd"]
    for name in [*outside, "link"]:
        with pytest.raises(errors.ApiError) as raised:
            files.get(name)
        assert raised.value.status < 500, name
    for name in outside:
        with pytest.raises(errors.ApiError) as raised:
            files.put(name, "x")
        assert raised.value.status < 500, name
    assert "passwd" not in [entry.path for entry in files.list(recursive=True)]


def test_an_upload_that_is_broken_off_leaves_what_was_there(files: Files) -> None:
    files.put("a", "before")

    def broken() -> object:
        yield CONTENT
        raise KeyError

    with pytest.raises(KeyError):
        files.put("a", broken())  # type: ignore[arg-type]
    assert files.get("a") == b"before"
    assert [entry.path for entry in own(files.list())] == ["a"]


def test_commands(session: Session) -> None:
    outcome = session.command(["sh", "-c", "echo out; echo err >&2; exit 3"])
    assert (outcome.stdout, outcome.stderr) == ("out\n", "err\n")
    assert (outcome.status, outcome.exit_code) == ("error", 3)
    with pytest.raises(errors.CommandFailed, match="exit code 3: err"):
        outcome.raise_for_status()
    assert session.command(shell="cat | tr a-z A-Z", stdin="piped").text == "PIPED"
    assert session.command(["cat"], stdin=b"\xc3\xa9").text == "é"
    assert session.command(shell="cat d/in; pwd", files={"d/in": "1\n"}).text.startswith("1\n/")
    workdir = session.command(["pwd"], cwd=".").text.strip()
    for cwd in ("d", f"{workdir}/d"):
        assert session.command(["cat", "in"], cwd=cwd).text == "1\n"
    made = session.command(shell="echo made > out", outputs=["out"])
    assert (made.ok, made.exit_code, made.files["out"].text) == (True, 0, "made\n")
    with pytest.raises(errors.Killed, match="signal"):
        session.command(shell="kill -9 $$").raise_for_status()


def test_a_command_does_not_cost_the_state(session: Session) -> None:
    session.execute("x = 1")
    with pytest.raises(errors.TimedOut):
        session.command(["sleep", "1000"], timeout=0.2).raise_for_status()
    assert str(session.execute("x").value) == "1"
    assert "not found" in session.command(["no-such-program"]).detail + (
        session.command(["no-such-program"]).stderr
    )


def test_commands_are_streamed(session: Session, real: Client) -> None:
    for stream in (
        session.stream_command(shell="echo 1; echo 2 >&2"),
        real.stream(argv=["sh", "-c", "echo 1; echo 2 >&2"]),
        real.stream(shell="cat; echo 2 >&2", stdin="1\n"),
    ):
        texts = [event.text for event in stream if isinstance(event, Stdout)]
        assert "".join(texts) == "1\n"
        assert stream.outcome is not None
        assert (stream.outcome.stderr, stream.outcome.exit_code) == ("2\n", 0)


def test_runs_of_programs(real: Client) -> None:
    assert real.run(argv=["echo", "a b"]).text == "a b\n"
    outcome = real.run(shell="cat in > out", files={"in": "x"}, outputs=["out"], network="none")
    assert (outcome.exit_code, outcome.files["out"].text) == (0, "x")


def test_asyncio(daemon: Daemon, tmp_path: Path) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for at in range(0, len(CONTENT), 1 << 20):
            yield CONTENT[at : at + (1 << 20)]

    async def main() -> None:
        async with AsyncClient(daemon.url) as client, client.session() as session:
            await session.files.put("a", parts())
            assert await session.files.get("a") == CONTENT
            assert await session.files.download("a", tmp_path / "a") == len(CONTENT)
            async with session.files.open("a") as file:
                assert b"".join([chunk async for chunk in file]) == CONTENT
            assert own([entry async for entry in session.files.list()])[0].path == "a"
            assert (await session.command(shell="wc -c < a")).text.strip() == str(len(CONTENT))
            await session.files.delete("a")

    asyncio.run(main())
