"""Homes and volumes: which requests are sent, and a real daemon's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from daemon import Daemon
from fake import Fake, js
from samples import SESSION
from vivarium_client import AsyncClient, Client, Conflict, NotFound

STORAGE = {
    "created_at": "2026-01-01T12:00:00Z",
    "last_used_at": "2026-01-02T12:00:00Z",
    "in_use": False,
    "used_bytes": 4096,
    "used_inodes": 1,
    "max_bytes": None,
    "max_inodes": 100,
}


def test_a_session_asks_for_a_home_and_volumes(fake: Fake, client: Client) -> None:
    mount = {"name": "v", "path": "/mnt/v", "read_only": True}
    fake.answers(js({**SESSION, "home": "session", "volumes": [mount]}), js({}))
    client.session("a", home="session", volumes=[{"name": "v", "read_only": True}])
    body = fake.seen[0].json()
    assert (body["home"], body["volumes"]) == ("session", [{"name": "v", "read_only": True}])


def test_homes_are_read_and_names_stay_one_segment(fake: Fake, client: Client) -> None:
    home = {"id": "@tenant", "kind": "tenant", "storage": STORAGE}
    fake.answers(js({"homes": [home]}), js(home), js({"entries": [], "next": None}), js({}))
    (found,) = client.homes.list()
    assert (found.kind, found.storage.used_bytes, found.storage.max_bytes) == ("tenant", 4096, None)
    assert client.homes.get("@tenant") == found
    assert list(client.homes.files("../x", "d", recursive=True)) == []
    client.homes.read("a", "b/c d")
    assert [seen.target for seen in fake.seen] == [
        "/v1/homes",
        "/v1/homes/%40tenant",
        "/v1/homes/..%2Fx/files?path=d&recursive=true",
        "/v1/homes/a/files/b/c%20d",
    ]


@pytest.fixture
def at_home() -> Iterator[Daemon]:
    daemon = Daemon('[homes]\nallowed = ["session", "tenant", "volumes"]\n')
    yield daemon
    daemon.stop()


def test_files_outlive_sessions_of_a_real_daemon(at_home: Daemon) -> None:
    with Client(at_home.url) as client:
        assert client.volumes.create("v").name == "v"
        with pytest.raises(Conflict):
            client.volumes.create("v")
        with client.session("a", home="session", volumes=[{"name": "v"}]) as session:
            session.execute("open('/home/sandbox/f', 'w').write('kept')")
            session.execute("open('/mnt/v/g', 'w').write('shared')")
            info = session.info()
            assert info.home == "session"
            assert info.volumes == ({"name": "v", "path": "/mnt/v", "read_only": False},)
            with pytest.raises(Conflict):
                client.homes.delete("a")
        assert client.homes.read("a", "f") == b"kept"
        assert [entry.path for entry in client.volumes.files("v")] == ["g"]
        assert client.homes.get("a").storage.in_use is False
        assert client.homes.delete_file("a", "f") is True
        with pytest.raises(NotFound):
            client.homes.read("a", "f")
        assert client.homes.delete("a") is True
        assert client.homes.delete("a") is False
        assert client.homes.list() == []

    async def main() -> None:
        async with AsyncClient(at_home.url) as client:
            assert [volume.name for volume in await client.volumes.list()] == ["v"]
            assert [entry.path async for entry in client.volumes.files("v")] == ["g"]
            assert await client.volumes.read("v", "g") == b"shared"
            assert await client.volumes.delete("v") is True

    asyncio.run(main())
