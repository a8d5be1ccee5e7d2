"""Environments: which requests are sent, and what of the answers is read."""

from __future__ import annotations

import asyncio

from fake import Fake, Reply, js
from vivarium_client import AsyncClient, Client

BUILD = {
    "name": "a b",
    "state": "building",
    "started_at": "2026-01-01T12:00:00Z",
    "ended_at": None,
    "error": None,
    "artefact": None,
}
DONE = {**BUILD, "state": "succeeded", "ended_at": "2026-01-01T12:00:09Z", "artefact": "00ff"}
ENVIRONMENT = {
    "name": "a b",
    "tenant": "team",
    "artefact": "00ff",
    "base": "default",
    "python_version": "3.11.2",
    "hash_locked": True,
    "built_at": "2026-01-01T12:00:09Z",
    "size_bytes": 10,
    "inodes": 3,
    "in_use": False,
    "distributions": ["six-1.16.0"],
}


def test_a_build_is_begun_waited_for_and_read(fake: Fake, client: Client) -> None:
    events = Reply(200, b": none\n\n", {"Content-Type": "text/event-stream"})
    fake.answers(js(BUILD), js(BUILD), events, js(DONE), js({"environments": [ENVIRONMENT]}))
    assert client.environments.build("a b", requirements="six").state == "building"
    assert fake.seen[0].json() == {"name": "a b", "requirements": "six"}
    assert client.environments.wait("a b").artefact == "00ff"
    assert fake.seen[2].headers["Accept"] == "text/event-stream"
    (environment,) = client.environments.list()
    assert (environment.tenant, environment.distributions) == ("team", ("six-1.16.0",))
    targets = [seen.target for seen in fake.seen]
    build = "/v1/environments/a%20b/build"
    assert targets == ["/v1/environments", build, build, build, "/v1/environments"]


def test_the_asyncio_client_does_the_same(fake: Fake) -> None:
    fake.answers(js(DONE), js({}), js(ENVIRONMENT))

    async def main() -> None:
        async with AsyncClient(fake.url) as client:
            assert (await client.environments.wait("a b")).state == "succeeded"
            assert await client.environments.delete("a b") is True
            assert (await client.environments.get("a b")).hash_locked is True

    asyncio.run(main())
