from __future__ import annotations

from collections.abc import Iterator

import pytest

from daemon import Daemon
from fake import Fake
from vivarium_client import Client, Session


@pytest.fixture
def fake() -> Iterator[Fake]:
    server = Fake()
    yield server
    server.close()


@pytest.fixture
def client(fake: Fake) -> Iterator[Client]:
    with Client(fake.url) as client:
        yield client


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses before further tries, in seconds, which are not waited for."""
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setattr("vivarium_client._asyncio.transport.asyncio.sleep", pause)
    return waited


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    running = Daemon()
    yield running
    running.stop()


@pytest.fixture
def real(daemon: Daemon) -> Iterator[Client]:
    """A client of a real daemon."""
    with Client(daemon.url) as client:
        yield client


@pytest.fixture
def session(real: Client) -> Iterator[Session]:
    """A session of a real daemon."""
    with real.session() as session:
        yield session
