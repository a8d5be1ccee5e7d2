"""A session, asked by calls that are awaited."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Optional, Union

from .._core import requests
from .._core.calls import Calls
from .._core.content import InputFiles
from .._core.request import Request
from .._core.requests import Outputs
from .._core.stream import Stream
from ..errors import VivariumError
from ..models import Completions, Execution, Inspection, Interrupt, Outcome, SessionInfo
from .files import AsyncFiles
from .stream import AsyncEventStream


class AsyncSession:
    """A live Python kernel with a working directory. Executions, commands too, run one at a time
    in the order they arrive; variables survive from one to the next.

    Made by `AsyncClient.session` and `AsyncClient.attach`.
    """

    id: str
    """Its id."""
    files: AsyncFiles
    """Its working directory."""

    def __init__(self, calls: Calls, id: str, *, deletes_itself: bool) -> None:
        self.id = id
        self.files = AsyncFiles(calls, id)
        self._calls = calls
        self._deletes_itself = deletes_itself

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if not self._deletes_itself:
            return
        try:
            await self.delete()
        except VivariumError:
            # What went wrong first is what the caller has to see.
            if error is None:
                raise

    async def execute(
        self,
        code: str,
        *,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        create: bool = False,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Outcome:
        """Runs code and waits for its outcome.

        `timeout` is in seconds, from when a kernel takes the code. `files` are put into the
        working directory first: a `str` is text, a `Path` a file of this machine. `outputs` are
        files to bring back. `create` makes the session if it is not there. With
        `cancel_on_disconnect` the code is interrupted when this client is gone; else it runs on.
        A second call with the same `idempotency_key` has the outcome of the first.
        """
        request = requests.execute(
            self.id,
            code,
            timeout=timeout,
            files=files,
            outputs=outputs,
            create=create,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        return await self._calls.fetch(request, Outcome._read)

    def stream(
        self,
        code: str,
        *,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        create: bool = False,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> AsyncEventStream:
        """As `execute`, and gives the events as they happen."""
        request = requests.execute(
            self.id,
            code,
            timeout=timeout,
            files=files,
            outputs=outputs,
            create=create,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        return AsyncEventStream(Stream(self._calls, request.streamed()))

    async def command(
        self,
        argv: Optional[Sequence[str]] = None,
        *,
        shell: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Outcome:
        """Runs a program, or a line of shell, beside the kernel, and waits for its outcome.

        `cwd` is relative to the working directory. The rest is as in `execute`.
        """
        request = requests.command(
            self.id,
            argv,
            shell=shell,
            stdin=stdin,
            cwd=cwd,
            timeout=timeout,
            files=files,
            outputs=outputs,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        return await self._calls.fetch(request, Outcome._read)

    def stream_command(
        self,
        argv: Optional[Sequence[str]] = None,
        *,
        shell: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> AsyncEventStream:
        """As `command`, and gives the events as they happen."""
        request = requests.command(
            self.id,
            argv,
            shell=shell,
            stdin=stdin,
            cwd=cwd,
            timeout=timeout,
            files=files,
            outputs=outputs,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        return AsyncEventStream(Stream(self._calls, request.streamed()))

    async def execution(self, execution_id: str) -> Execution:
        """What the daemon remembers of an execution; `NotFound` when it remembers nothing."""
        request = requests.execution(self.id, execution_id)
        return await self._calls.fetch(request, Execution._read)

    def events(self, execution_id: str, *, after: int = 0) -> AsyncEventStream:
        """The events of an execution that is there, after the one with a number.

        Raises `EventsGone` where they are no longer kept. The outcome at the end has of output
        and displays what these events have.
        """
        return AsyncEventStream(Stream.attach(self._calls, self.id, execution_id, after))

    async def complete(self, code: str, cursor: Optional[int] = None) -> Completions:
        """What could follow at the cursor, in characters; at the end if not given."""
        request = requests.cursor(self.id, "complete", code, cursor)
        return await self._calls.fetch(request, Completions._read)

    async def inspect(self, code: str, cursor: Optional[int] = None) -> Inspection:
        """What stands at the cursor, in characters; at the end if not given."""
        request = requests.cursor(self.id, "inspect", code, cursor)
        return await self._calls.fetch(request, Inspection._read)

    async def interrupt(self) -> Interrupt:
        """KeyboardInterrupt in what is running. Variables are kept."""
        request = requests.control(self.id, "interrupt")
        return await self._calls.fetch(request, Interrupt._read)

    async def reset(self) -> Optional[str]:
        """A fresh kernel; files stay. Returns the id of the execution that this ended, if any."""
        request = requests.control(self.id, "reset")
        return await self._calls.fetch(
            request, lambda reply: reply.optional_text("ended_execution_id")
        )

    async def keepalive(self) -> datetime:
        """Begins the idle time anew. Returns when it ends."""
        request = requests.control(self.id, "keepalive")
        return await self._calls.fetch(request, lambda reply: reply.time("expires_at"))

    async def info(self) -> SessionInfo:
        """State, protection, limits, usage."""
        return await self._calls.fetch(requests.session(self.id), SessionInfo._read)

    async def delete(self) -> bool:
        """Ends it. Returns when nothing of it is left, and whether it was there."""
        return await self._calls.delete_session(self.id)


class Opening:
    """A session that is being made: to be awaited, or entered as a context manager, which
    deletes it at the end."""

    def __init__(self, calls: Calls, request: Request) -> None:
        self._calls = calls
        self._request = request
        self._session: Optional[AsyncSession] = None

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._open().__await__()

    async def _open(self) -> AsyncSession:
        info = await self._calls.fetch(self._request, SessionInfo._read)
        self._session = AsyncSession(self._calls, info.id, deletes_itself=True)
        return self._session

    async def __aenter__(self) -> AsyncSession:
        return await self._open()

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, traceback)
