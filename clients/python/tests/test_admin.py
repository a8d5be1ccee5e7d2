"""Administration: which requests are sent, and a real daemon's answers."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone

import pytest

from daemon import Daemon
from fake import Fake, js
from vivarium_client import AsyncClient, Client, Unavailable


def test_requests_say_no_more_than_was_given(fake: Fake, client: Client) -> None:
    reply: dict[str, object] = {
        "paused": None,
        "paused_tenants": {},
        "draining": True,
        "persistent": True,
    }
    fake.answers(js(reply), js(reply), js({"sessions": 2, "exit": True}), js({"rows": []}))
    assert client.admin.pause("a", reason="unpaid").persistent
    resumed = client.admin.resume()
    assert (resumed.paused, resumed.draining) == (None, True)
    assert client.admin.drain(exit=True).sessions == 2
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert client.admin.usage(start=start, period="month", tenant="a") == []
    targets = [seen.target for seen in fake.seen]
    assert targets[:3] == ["/v1/admin/pause", "/v1/admin/resume", "/v1/admin/drain"]
    assert targets[3].startswith("/v1/admin/usage?from=2026-01-01T00%3A00%3A00")
    assert targets[3].endswith("&period=month&tenant=a")
    assert [seen.json() for seen in fake.seen[:3]] == [
        {"tenant": "a", "reason": "unpaid"},
        {},
        {"exit": True},
    ]


def test_a_daemon_is_looked_at_paused_and_resumed(daemon: Daemon) -> None:
    # Without retries: who is paused is told at once.
    with Client(daemon.url, max_retries=0) as client:
        client.run("1")
        status = client.admin.status()
        assert (status.draining, status.paused, status.tenant_sources) == (False, None, None)
        assert status.failed_reload is None
        (tenant,) = client.admin.tenants()
        assert (tenant.name, tenant.configured) == ("default", True)
        (row,) = client.admin.usage(period="total")
        assert (row.tenant, row.executions >= 1) == ("default", True)
        paused = client.admin.pause(reason="noon")
        try:
            assert paused.paused is not None
            assert paused.paused.reason == "noon"
            with pytest.raises(Unavailable):
                client.run("1")
        finally:
            client.admin.resume()
        assert client.run("1").status == "ok"


def test_asyncio_has_the_same(daemon: Daemon) -> None:
    async def look() -> int:
        async with AsyncClient(daemon.url) as client:
            return (await client.admin.status()).tenants

    assert asyncio.run(look()) == 1
