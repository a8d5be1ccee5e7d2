"""A daemon, asked by calls that are awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Optional, Union

import httpx

from .._core import requests
from .._core.address import Address
from .._core.calls import Calls
from .._core.content import InputFiles
from .._core.listing import session_page
from .._core.requests import Outputs
from .._core.stream import Stream
from ..models import HostInfo, Limits, Outcome, SessionInfo
from .session import AsyncSession, Opening
from .stream import AsyncEventStream
from .transport import AwaitedTransport


class AsyncClient:
    """A Vivarium daemon.

    `url` is `http://HOST:PORT` or `unix:/PATH`; if not given, `VIVARIUM_URL` or
    `http://127.0.0.1:8470`. `token`, or `VIVARIUM_TOKEN`, is sent as a bearer token.

    `timeout` is for connecting and for every call that does not run code, in seconds. Code has
    the time that its own call gives it. A call that failed is made again up to `max_retries`
    times where that can not do anything twice: when the daemon was not reached, when the call is
    idempotent (executions are: they carry an Idempotency-Key), and when it was refused for now
    (429, 503), after the time that the daemon asks for. 0 switches that off.

    `transport` takes the place of the one that is made for `url`, for proxies and certificates.

    A client belongs to one event loop, and is to be closed: it is a context manager.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        timeout: float = 30.0,
        max_retries: int = 2,
        transport: Optional[httpx.AsyncBaseTransport] = None,
    ) -> None:
        self._address = Address.of(url, token)
        self._transport = AwaitedTransport(self._address, timeout, transport)
        self._calls = Calls(self._transport, max_retries)

    @property
    def url(self) -> str:
        """Where the daemon is."""
        return self._address.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes all connections."""
        await self._transport.close()

    async def run(
        self,
        code: Optional[str] = None,
        *,
        argv: Optional[Sequence[str]] = None,
        shell: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        limits: Optional[Limits] = None,
        network: Optional[str] = None,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        environment: Optional[str] = None,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Outcome:
        """Runs code, or a program (`argv`), or a line of shell, in a session of its own.

        `stdin` is for programs. `files` are put into the working directory first: a `str` is
        text, a `Path` a file of this machine. `outputs` are files to bring back. `limits` may be
        tighter than the configured ones. `network` is `none`, `loopback`, or what else the
        operator allows. `timeout` is in seconds. With `cancel_on_disconnect` it ends when this
        client is gone.
        """
        request = requests.run(
            code,
            argv=argv,
            shell=shell,
            stdin=stdin,
            files=files,
            outputs=outputs,
            limits=limits,
            network=network,
            timeout=timeout,
            env=env,
            environment=environment,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        return await self._calls.fetch(request, Outcome._read)

    def stream(
        self,
        code: Optional[str] = None,
        *,
        argv: Optional[Sequence[str]] = None,
        shell: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        limits: Optional[Limits] = None,
        network: Optional[str] = None,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        environment: Optional[str] = None,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> AsyncEventStream:
        """As `run`, and gives the events as they happen."""
        request = requests.run(
            code,
            argv=argv,
            shell=shell,
            stdin=stdin,
            files=files,
            outputs=outputs,
            limits=limits,
            network=network,
            timeout=timeout,
            env=env,
            environment=environment,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        return AsyncEventStream(Stream(self._calls, request.streamed()))

    def session(
        self,
        id: Optional[str] = None,
        *,
        environment: Optional[str] = None,
        limits: Optional[Limits] = None,
        network: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        idle_timeout: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        idempotency_key: Optional[str] = None,
    ) -> Opening:
        """Makes a session, whose kernel is ready when this has been awaited.

        As `async with client.session() as session` it is deleted at the end. `id` is up to 64 of
        `A-Z a-z 0-9 _ -`, a random one if not given. `idle_timeout` is in seconds.
        With an `idempotency_key` a second call gets the session that the first one made, also if
        its answer was lost, and a call whose connection broke is made again.
        """
        request = requests.create_session(
            id=id,
            environment=environment,
            limits=limits,
            network=network,
            env=env,
            idle_timeout=idle_timeout,
            metadata=metadata,
            idempotency_key=idempotency_key,
        )
        return Opening(self._calls, request)

    def attach(self, id: str) -> AsyncSession:
        """A session that is there already. It is not asked for, and not deleted at the end."""
        return AsyncSession(self._calls, id, deletes_itself=False)

    async def sessions(self) -> AsyncIterator[SessionInfo]:
        """All one's own sessions, ordered by id."""
        after = None
        while True:
            page = await self._calls.fetch(requests.sessions(after, None), session_page)
            for info in page.entries:
                yield info
            after = page.next
            if after is None:
                return

    async def host(self) -> HostInfo:
        """The host and what it offers."""
        return await self._calls.fetch(requests.host(), HostInfo._read)
