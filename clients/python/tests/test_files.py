"""Files go up and come down as streams, whole or not at all."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from fake import DROP, Fake, Reply, js, problem
from vivarium_client import Client, Files, TransportError, UnexpectedAnswer, errors

CONTENT = bytes(range(256)) * 5000


@pytest.fixture
def files(client: Client) -> Files:
    return client.attach("demo").files


def test_content_comes_from_anywhere(fake: Fake, files: Files, tmp_path: Path) -> None:
    fake.answer = lambda seen: Reply(201)
    local = tmp_path / "local"
    local.write_bytes(CONTENT)
    half = io.BytesIO(b"xx" + CONTENT)
    half.seek(2)
    with open(local, "rb") as file:
        sources: list[Any] = [CONTENT, bytearray(CONTENT), memoryview(CONTENT), local, file, half]
        for source in sources:
            files.put("a/b.bin", source)
    files.put("a/b.bin", (CONTENT[at : at + 1000] for at in range(0, len(CONTENT), 1000)))
    for seen in fake.seen:
        assert (seen.method, seen.target) == ("PUT", "/v1/sessions/demo/files/a/b.bin")
        assert seen.body == CONTENT
        assert seen.headers["Content-Type"] == "application/octet-stream"
    lengths = [seen.headers.get("Content-Length") for seen in fake.seen]
    assert lengths == [str(len(CONTENT))] * len(sources) + [None]
    files.put("text", "é")
    files.put("empty", b"")
    files.put("empty", [])
    assert [seen.body for seen in fake.seen[-3:]] == ["é".encode(), b"", b""]


def test_a_file_that_changes_while_it_is_sent(
    fake: Fake, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.answer = lambda seen: Reply(201)
    local = tmp_path / "local"
    local.write_bytes(CONTENT)
    # It is longer than it was said to be: what was said is sent.
    with open(local, "rb") as file:
        real = file.seek(0, io.SEEK_END)
        file.seek(0)
        with open(local, "ab") as more:
            files.put("a", _growing(file, more))
    assert real == len(CONTENT)
    assert fake.seen[0].body == CONTENT


def _growing(file: Any, more: Any) -> Any:
    class Growing(io.RawIOBase):
        def seekable(self) -> bool:
            return True

        def tell(self) -> int:
            return int(file.tell())

        def seek(self, offset: int, whence: int = 0) -> int:
            position = int(file.seek(offset, whence))
            if whence == io.SEEK_END:
                more.write(b"more")
                more.flush()
            return position

        def read(self, size: int = -1) -> bytes:
            return bytes(file.read(size))

    return Growing()


def test_an_upload_that_failed_begins_anew(
    fake: Fake, files: Files, pauses: list[float], tmp_path: Path
) -> None:
    local = tmp_path / "local"
    local.write_bytes(CONTENT)
    fake.answers(DROP, Reply(201))
    with open(local, "rb") as file:
        file.seek(256)
        files.put("a", file)
    assert [seen.body for seen in fake.seen] == [CONTENT[256:]] * 2


def test_archives(fake: Fake, files: Files) -> None:
    fake.answer = lambda seen: Reply(200)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    files.put_tar(buffer.getvalue())
    files.put_tar(buffer.getvalue(), "some/where")
    assert [seen.target for seen in fake.seen] == [
        "/v1/sessions/demo/files?unpack=true",
        "/v1/sessions/demo/files/some/where?unpack=true",
    ]
    for seen in fake.seen:
        assert seen.headers["Content-Type"] == "application/x-tar"
        assert seen.body == buffer.getvalue()


@pytest.mark.parametrize(
    ("options", "header"),
    [
        ({"offset": 5}, "bytes=5-"),
        ({"length": 5}, "bytes=0-4"),
        ({"offset": 5, "length": 1}, "bytes=5-5"),
    ],
)
def test_parts(fake: Fake, files: Files, options: dict[str, int], header: str) -> None:
    fake.answers(Reply(206, b"part"), Reply(200, b"whole"), problem(416, "range_not_satisfiable"))
    assert files.get("a", **options) == b"part"
    assert fake.seen[0].headers["Range"] == header
    with pytest.raises(UnexpectedAnswer, match="asked for a part"):
        files.get("a", **options)
    with pytest.raises(errors.InvalidRequest):
        files.get("a", **options)


def test_downloads(fake: Fake, files: Files, tmp_path: Path) -> None:
    fake.answer = lambda seen: Reply(200, CONTENT, {"Content-Type": "text/csv"})
    assert files.get("a") == CONTENT
    assert "Range" not in fake.seen[0].headers
    target = tmp_path / "a"
    target.write_bytes(b"before")
    assert files.download("a", target) == len(CONTENT)
    assert files.download("a", str(tmp_path / "b")) == len(CONTENT)
    assert (target.read_bytes(), (tmp_path / "b").read_bytes()) == (CONTENT, CONTENT)
    buffer = io.BytesIO()
    assert files.download("a", buffer) == len(CONTENT)
    assert buffer.getvalue() == CONTENT


def test_a_broken_download_leaves_what_was_there(
    fake: Fake, files: Files, tmp_path: Path, pauses: list[float]
) -> None:
    fake.answer = lambda seen: Reply(200, CONTENT, cut_at=len(CONTENT) - 1)
    target = tmp_path / "a"
    target.write_bytes(b"before")
    with pytest.raises(TransportError):
        files.download("a", target)
    assert target.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(TransportError):
        files.get("a")
    with files.open("a") as file, pytest.raises(TransportError):
        file.read()


def test_an_open_file_is_like_others(fake: Fake, files: Files) -> None:
    text = "x,y\n1,2\n"
    fake.answer = lambda seen: Reply(200, text.encode(), {"Content-Type": "text/csv"})
    with files.open("a.csv") as file:
        assert (file.size_bytes, file.mime_type) == (len(text), "text/csv")
        assert file.read(3) == b"x,y"
        assert file.readline() == b"\n"
        assert file.read() == b"1,2\n"
        assert file.read() == b""
    with io.TextIOWrapper(files.open("a.csv"), "utf-8") as lines:
        assert list(lines) == ["x,y\n", "1,2\n"]
    with files.open("a.csv") as file:
        pass
    with pytest.raises(ValueError, match="closed"):
        file.read()
    fake.answer = lambda seen: problem(404, "unknown_file")
    with pytest.raises(errors.NotFound):
        files.open("b")


def test_lists(fake: Fake, files: Files) -> None:
    entry = {"kind": "file", "size_bytes": 3, "modified_at": "2026-01-01T00:00:00Z"}
    fake.answers(
        js({"entries": [{**entry, "path": "d/a", "mime_type": "text/csv"}], "next": "d/a"}),
        js({"entries": [{"path": "d/b", "kind": "link"}], "next": None}),
    )
    first, second = files.list("d", recursive=True)
    assert (first.path, first.kind, first.size_bytes, first.mime_type) == (
        "d/a",
        "file",
        3,
        "text/csv",
    )
    assert first.modified_at is not None
    assert (second.kind, second.modified_at) == ("link", None)
    assert [seen.target for seen in fake.seen] == [
        "/v1/sessions/demo/files?path=d&recursive=true",
        "/v1/sessions/demo/files?path=d&recursive=true&after=d%2Fa",
    ]


def test_entries(fake: Fake, files: Files) -> None:
    entry = {"path": "d/b", "kind": "file", "size_bytes": 3, "mode": "0600"}
    changed = Reply(200, json.dumps(entry).encode())
    fake.answers(*[changed] * 4, Reply(201, b'{"path": "d"}'))
    assert files.stat("/tmp/a").mode == "0600"
    assert files.move("a", "d/b").path == "d/b"
    files.chmod("a", 0o600)
    files.chmod("a", "0644")
    files.make_directory("d")
    assert [(one.method, one.target) for one in fake.seen] == [
        ("GET", "/v1/sessions/demo/files/%2Ftmp/a?info=true"),
        *[("PATCH", "/v1/sessions/demo/files/a")] * 3,
        ("PUT", "/v1/sessions/demo/files/d?directory=true"),
    ]
    assert [json.loads(one.body) for one in fake.seen[1:4]] == [
        {"move_to": "d/b", "replace": False},
        {"mode": "0600"},
        {"mode": "0644"},
    ]


def test_deleting(fake: Fake, files: Files) -> None:
    fake.answers(Reply(204, b""), problem(404, "unknown_file"))
    files.delete("d")
    assert (fake.seen[0].method, fake.seen[0].target) == ("DELETE", "/v1/sessions/demo/files/d")
    with pytest.raises(errors.NotFound):
        files.delete("d")
