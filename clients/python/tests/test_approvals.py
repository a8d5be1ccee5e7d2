"""Approvals: which requests are sent, and a real daemon's calls that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from daemon import Daemon
from fake import Fake, js
from samples import OUTCOME, SESSION
from vivarium_client import ApprovalRules, AsyncClient, AwaitingApproval, Client, Conflict, Done

EXECUTION = {
    "id": "1",
    "kind": "code",
    "code": "1",
    "argv": None,
    "truncated": False,
    "code_sha256": "6b",
    "code_bytes": 1,
    "environment": "default",
    "network": "loopback",
    "env": ["A"],
    "files": [],
    "timeout_ms": 30000,
}

APPROVAL: dict[str, Any] = {
    "id": "a1",
    "state": "pending",
    "tenant": "t",
    "session_id": "s",
    "execution": EXECUTION,
    "egress": None,
    "asked_at": "2026-01-01T12:00:00Z",
    "expires_at": "2026-01-01T12:05:00Z",
    "ended_at": None,
    "by": None,
    "reason": None,
    "remember": "session",
}


def test_approvals_are_read_and_decided(fake: Fake, client: Client) -> None:
    egress = {**APPROVAL, "execution": None, "egress": {"host": "a.example", "port": 443}}
    pages = [{"approvals": [APPROVAL], "next": "a1"}, {"approvals": [egress], "next": None}]
    decided = {**APPROVAL, "state": "allowed", "by": "token boss of t"}
    fake.answers(*map(js, [*pages, APPROVAL, decided, decided]))
    code, reach = client.approvals.list(all=True)
    assert code.execution is not None
    assert code.execution.env == ("A",)
    assert reach.egress is not None
    assert reach.egress.port == 443
    assert client.approvals.get("../x").remember == "session"
    assert client.approvals.allow("a1", remember="nothing", reason="ok").by == "token boss of t"
    client.approvals.deny("a1")
    assert [seen.target for seen in fake.seen] == [
        "/v1/approvals?all=true",
        "/v1/approvals?all=true&after=a1",
        "/v1/approvals/..%2Fx",
        "/v1/approvals/a1",
        "/v1/approvals/a1",
    ]
    assert fake.seen[3].json() == {"decision": "allow", "remember": "nothing", "reason": "ok"}
    assert fake.seen[4].json() == {"decision": "deny"}


def test_requests_say_what_has_to_be_allowed(fake: Fake, client: Client) -> None:
    fake.answers(js(SESSION), js(OUTCOME), js(OUTCOME), js(OUTCOME))
    rules: ApprovalRules = {"executions": "ask"}
    with_egress: ApprovalRules = {"executions": "deny", "egress": "ask"}
    client.session("id", approval=with_egress)
    session = client.attach("id")
    session.execute("1", approval=rules)
    session.command(["true"], approval=rules)
    client.run("1", approval=rules)
    sent = [seen.json()["approval"] for seen in fake.seen]
    assert sent == [with_egress, rules, rules, rules]


@pytest.fixture
def asking() -> Iterator[Daemon]:
    daemon = Daemon('[approval]\nexecutions = "ask"\n')
    yield daemon
    daemon.stop()


def test_calls_of_a_real_daemon_wait_until_they_are_allowed(asking: Daemon) -> None:
    with Client(asking.url) as client, client.session("s") as session:
        with session.stream("6 * 7") as events:
            first = next(iter(events))
            assert isinstance(first, AwaitingApproval)
            assert session.execution(first.execution_id).state == "awaiting_approval"
            approval = client.approvals.get(first.approval_id)
            assert approval.execution is not None
            assert approval.execution.code == "6 * 7"
            client.approvals.allow(approval.id)
            last = list(events)[-1]
        assert isinstance(last, Done)
        assert last.outcome.value is not None
        with pytest.raises(Conflict):
            client.approvals.deny(approval.id)

    async def deny() -> None:
        async with AsyncClient(asking.url) as client, client.session("a") as session:
            running = asyncio.ensure_future(session.execute("1"))
            waiting = [one async for one in client.approvals.list()]
            while not waiting:
                waiting = [one async for one in client.approvals.list()]
            await client.approvals.deny(waiting[0].id, reason="no")
            outcome = await running
            assert (outcome.status, outcome.cause) == ("rejected", "approval_denied")

    asyncio.run(deny())
