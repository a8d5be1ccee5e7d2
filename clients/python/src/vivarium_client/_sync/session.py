"""A session, asked by calls that block."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Optional, Union

from .._core import requests
from .._core.calls import Calls
from .._core.content import InputFiles
from .._core.requests import Outputs
from .._core.stream import Stream
from .._core.transport import run
from ..errors import VivariumError
from ..models import Completions, Execution, Inspection, Interrupt, Outcome, SessionInfo
from .files import Files
from .stream import EventStream


class Session:
    """A live Python kernel with a working directory. Executions, commands too, run one at a time
    in the order they arrive; variables survive from one to the next.

    Made by `Client.session` and `Client.attach`.
    """

    id: str
    """Its id."""
    files: Files
    """Its working directory."""

    def __init__(self, calls: Calls, id: str, *, deletes_itself: bool) -> None:
        self.id = id
        self.files = Files(calls, id)
        self._calls = calls
        self._deletes_itself = deletes_itself

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if not self._deletes_itself:
            return
        try:
            self.delete()
        except VivariumError:
            # What went wrong first is what the caller has to see.
            if error is None:
                raise

    def execute(
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
        return run(self._calls.fetch(request, Outcome._read))

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
    ) -> EventStream:
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
        return EventStream._open(Stream(self._calls, request.streamed()))

    def command(
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
        return run(self._calls.fetch(request, Outcome._read))

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
    ) -> EventStream:
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
        return EventStream._open(Stream(self._calls, request.streamed()))

    def execution(self, execution_id: str) -> Execution:
        """What the daemon remembers of an execution; `NotFound` when it remembers nothing."""
        request = requests.execution(self.id, execution_id)
        return run(self._calls.fetch(request, Execution._read))

    def events(self, execution_id: str, *, after: int = 0) -> EventStream:
        """The events of an execution that is there, after the one with a number.

        Raises `EventsGone` where they are no longer kept. The outcome at the end has of output
        and displays what these events have.
        """
        return EventStream._open(Stream.attach(self._calls, self.id, execution_id, after))

    def complete(self, code: str, cursor: Optional[int] = None) -> Completions:
        """What could follow at the cursor, in characters; at the end if not given."""
        request = requests.cursor(self.id, "complete", code, cursor)
        return run(self._calls.fetch(request, Completions._read))

    def inspect(self, code: str, cursor: Optional[int] = None) -> Inspection:
        """What stands at the cursor, in characters; at the end if not given."""
        request = requests.cursor(self.id, "inspect", code, cursor)
        return run(self._calls.fetch(request, Inspection._read))

    def interrupt(self) -> Interrupt:
        """KeyboardInterrupt in what is running. Variables are kept."""
        request = requests.control(self.id, "interrupt")
        return run(self._calls.fetch(request, Interrupt._read))

    def reset(self) -> Optional[str]:
        """A fresh kernel; files stay. Returns the id of the execution that this ended, if any."""
        request = requests.control(self.id, "reset")
        return run(
            self._calls.fetch(request, lambda reply: reply.optional_text("ended_execution_id"))
        )

    def keepalive(self) -> datetime:
        """Begins the idle time anew. Returns when it ends."""
        request = requests.control(self.id, "keepalive")
        return run(self._calls.fetch(request, lambda reply: reply.time("expires_at")))

    def info(self) -> SessionInfo:
        """State, protection, limits, usage."""
        return run(self._calls.fetch(requests.session(self.id), SessionInfo._read))

    def delete(self) -> bool:
        """Ends it. Returns when nothing of it is left, and whether it was there."""
        return run(self._calls.delete_session(self.id))
