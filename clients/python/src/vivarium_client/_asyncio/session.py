"""A session, for asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Callable, Generic, Literal, Optional, TypeVar, Union

from .._core import images, requests
from .._core.calls import Calls
from .._core.content import InputFiles
from .._core.listing import checkpoint_list, context_list, execution_page, session_page
from .._core.process import ProcessCalls, started_id
from .._core.requests import AnswerForm, Outputs, ReprLimits
from .._core.stream import Stream, finish
from .._core.tools import Tools, ToolSet
from ..errors import VivariumError
from ..models import (
    ApprovalRules,
    Checkpoint,
    CheckpointDiff,
    Completeness,
    Completions,
    ContextInfo,
    Execution,
    ExecutionSummary,
    Imageable,
    Inspection,
    Interrupt,
    Limits,
    Outcome,
    Preview,
    Reset,
    SessionInfo,
)
from ..models.names import Keep
from ..models.policies import ExecutionPolicies
from .context import AsyncContext
from .files import AsyncFiles
from .process import AsyncProcess
from .stream import AsyncEventStream
from .tools import TaskAnswerer


class AsyncSession:
    """A live Python kernel with a working directory.

    Executions run one at a time, in order of arrival, and variables survive from one to the next;
    commands run beside them. Get a session from `AsyncClient.session` or `AsyncClient.attach`.
    """

    id: str
    files: AsyncFiles
    """The working directory."""

    def __init__(
        self,
        calls: Calls,
        id: str,
        *,
        deletes_itself: bool,
        tools: Optional[ToolSet] = None,
    ) -> None:
        self.id = id
        self.files = AsyncFiles(calls, id)
        self._calls = calls
        self._deletes_itself = deletes_itself
        self._tools = tools

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
        context: Optional[str] = None,
        filename: Optional[str] = None,
        repr: Optional[ReprLimits] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        approval: Optional[ApprovalRules] = None,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        max_output_chars: Optional[int] = None,
        keep: Optional[Keep] = None,
        answer: Optional[AnswerForm] = None,
        tools: Optional[Tools] = None,
        tools_as_globals: bool = False,
        tool_servers: Optional[Iterable[str]] = None,
        policies: Optional[ExecutionPolicies] = None,
        create: bool = False,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Outcome:
        """Runs code and waits for its outcome.

        An exception of the code is part of the outcome: see `Outcome.raise_for_status`.

        Args:
            code: Python. The value of a final expression becomes `Outcome.value`.
            context: Id of the context whose kernel runs it; `main` if not given.
            filename: Name of the code in tracebacks. If it is a file in the working directory,
                `__file__` is its path, and modules beside it can be imported.
            repr: How far the value and displays are written out: see `ReprLimits`.
            cwd: Working directory while it runs, in the session's.
            env: Environment variables while it runs.
            approval: Whether somebody has to allow it first, such as `{"executions": "ask"}`: no
                less than the rule of its tenant and session.
            timeout: Seconds that the code may run, from when a kernel gets it.
            files: Files to write into the working directory first, by path. A `str` is text, a
                `Path` a local file.
            outputs: Files to return in `Outcome.files`.
            max_output_chars: The most characters of each text in the outcome, 100 or more;
                `Outcome.cuts` tells what is missing.
            keep: Which part of a longer text is kept: `head`, `tail` or `both` (the default).
            answer: How the outcome is told: see `AnswerForm`.
            tools: Functions of this process that the code can call, beside those of its session:
                `from vivarium import tools; tools.NAME(…)`. Plain functions, sync or async, or
                `Tool`. Their arguments are untrusted.
            tools_as_globals: Put the tools' names into the code's globals too.
            tool_servers: Names of the operator's servers whose tools the code can call:
                `tools.SERVER_NAME(…)`.
            policies: Policies of the language, such as `{"max_work": 1_000_000}`.
            create: Create the session if it does not exist.
            cancel_on_disconnect: Interrupt the code when this client disconnects; by default it
                runs on.
            idempotency_key: Another call with the same key returns the outcome of the first.

        Raises:
            NotFound: There is no such session or context.
            QuotaExceeded: The context's queue is full.
        """
        tool_set = ToolSet(tools, self._tools)
        request = requests.execute(
            self.id,
            code,
            context=context,
            filename=filename,
            repr=repr,
            cwd=cwd,
            env=env,
            approval=approval,
            timeout=timeout,
            files=files,
            outputs=outputs,
            max_output_chars=max_output_chars,
            keep=keep,
            answer=answer,
            tools=tool_set.declared(),
            follows=bool(tool_set),
            tools_as_globals=tools_as_globals,
            tool_servers=tool_servers,
            policies=policies,
            create=create,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        if tool_set:
            stream = Stream(
                self._calls,
                request.streamed(),
                answerer=TaskAnswerer(self._calls, tool_set),
            )
            return await finish(self._calls, stream, max_output_chars, keep, answer)
        return await self._calls.fetch(request, Outcome._read)

    def stream(
        self,
        code: str,
        *,
        context: Optional[str] = None,
        filename: Optional[str] = None,
        repr: Optional[ReprLimits] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        approval: Optional[ApprovalRules] = None,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        answer: Optional[AnswerForm] = None,
        tools: Optional[Tools] = None,
        tools_as_globals: bool = False,
        tool_servers: Optional[Iterable[str]] = None,
        policies: Optional[ExecutionPolicies] = None,
        create: bool = False,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> AsyncEventStream:
        """Runs like `execute`, and yields the events as they happen."""
        tool_set = ToolSet(tools, self._tools)
        request = requests.execute(
            self.id,
            code,
            context=context,
            filename=filename,
            repr=repr,
            cwd=cwd,
            env=env,
            approval=approval,
            timeout=timeout,
            files=files,
            outputs=outputs,
            answer=answer,
            tools=tool_set.declared(),
            tools_as_globals=tools_as_globals,
            tool_servers=tool_servers,
            policies=policies,
            create=create,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        answerer = TaskAnswerer(self._calls, tool_set) if tool_set else None
        return AsyncEventStream(Stream(self._calls, request.streamed(), answerer=answerer))

    async def command(
        self,
        argv: Optional[Sequence[str]] = None,
        *,
        shell: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        queued: bool = False,
        approval: Optional[ApprovalRules] = None,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        max_output_chars: Optional[int] = None,
        keep: Optional[Keep] = None,
        answer: Optional[AnswerForm] = None,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Outcome:
        """Runs a program or a line of shell beside the kernel, and waits for its outcome.

        Args:
            argv: A program and its arguments. Give either `argv` or `shell`.
            shell: A line for `/bin/sh -c`.
            stdin: Standard input.
            cwd: Working directory, in the session's.
            env: Environment variables for it alone.
            queued: Wait behind the code that was sent before.

        The other arguments are those of `execute`.
        """
        request = requests.command(
            self.id,
            argv,
            shell=shell,
            stdin=stdin,
            cwd=cwd,
            env=env,
            queued=queued,
            approval=approval,
            timeout=timeout,
            files=files,
            outputs=outputs,
            max_output_chars=max_output_chars,
            keep=keep,
            answer=answer,
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
        env: Optional[Mapping[str, str]] = None,
        queued: bool = False,
        approval: Optional[ApprovalRules] = None,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        answer: Optional[AnswerForm] = None,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> AsyncEventStream:
        """Runs like `command`, and yields the events as they happen."""
        request = requests.command(
            self.id,
            argv,
            shell=shell,
            stdin=stdin,
            cwd=cwd,
            env=env,
            queued=queued,
            approval=approval,
            timeout=timeout,
            files=files,
            outputs=outputs,
            answer=answer,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        return AsyncEventStream(Stream(self._calls, request.streamed()))

    async def start(
        self,
        argv: Optional[Sequence[str]] = None,
        *,
        shell: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        stdin_open: bool = False,
        pty: Optional[tuple[int, int]] = None,
        cwd: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        survives_reset: bool = False,
        approval: Optional[ApprovalRules] = None,
        timeout: Optional[float] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        idempotency_key: Optional[str] = None,
    ) -> AsyncProcess:
        """Starts a program or a line of shell in the background, and returns it at once.

        It runs until it ends, `timeout`, a reset or the end of the session.

        Args:
            stdin: The whole standard input.
            stdin_open: Leave standard input open for `AsyncProcess.write`.
            pty: Run it on a terminal of so many columns and rows. All that it prints is then
                its standard output.
            survives_reset: Let it go on when the session is reset. Only with the cgroup layer,
                without which a reset ends every process.
            timeout: Seconds that it may run; without, there is no limit.

        The other arguments are those of `command`.

        Raises:
            QuotaExceeded: As many commands run in the session as may.
        """
        request = requests.command(
            self.id,
            argv,
            shell=shell,
            stdin=stdin,
            stdin_open=stdin_open,
            pty=pty,
            cwd=cwd,
            env=env,
            background=True,
            survives_reset=survives_reset,
            approval=approval,
            timeout=timeout,
            files=files,
            outputs=outputs,
            idempotency_key=idempotency_key,
        )
        return self.process(await self._calls.fetch(request, started_id))

    def process(self, execution_id: str) -> AsyncProcess:
        """Returns a command that was started before, without a request."""
        return AsyncProcess(ProcessCalls(self._calls, self.id, execution_id))

    async def execution(
        self,
        execution_id: str,
        *,
        max_output_chars: Optional[int] = None,
        keep: Optional[Keep] = None,
        answer: Optional[AnswerForm] = None,
    ) -> Execution:
        """Returns the state of an execution. Raises `NotFound` if the daemon no longer keeps it."""
        request = requests.execution(self.id, execution_id, max_output_chars, keep, answer)
        return await self._calls.fetch(request, Execution._read)

    async def output(
        self, execution_id: str, part: str, *, mime_type: Optional[str] = None
    ) -> bytes:
        """Returns one part of an outcome, decoded: such as a display that was told by its size.

        It comes from tenant code. Raises `NotFound` if the outcome has no such part.

        Args:
            execution_id: Id of an execution that is over.
            part: `stdout`, `stderr`, `result`, `exception`, `exception/message` or, counted from
                0, `displays/0`, `images/0`, `video_frames/0`, `files/0`.
            mime_type: The representation; by default plain text, or the only one.
        """
        request = requests.output(self.id, execution_id, part, mime_type)
        return await self._calls.download(request)

    def events(self, execution_id: str, *, after: int = 0) -> AsyncEventStream:
        """Follows an existing execution from the event after number `after`.

        The outcome at the end has only the output and displays of these events. Raises `EventsGone`
        if they are no longer kept.
        """
        return AsyncEventStream(Stream.attach(self._calls, self.id, execution_id, after))

    async def complete(
        self, code: str, cursor: Optional[int] = None, *, context: Optional[str] = None
    ) -> Completions:
        """Returns completions at `cursor`, in characters (default: the end of `code`).

        Raises `Conflict` if the context is busy.
        """
        request = requests.assist(self.id, "complete", code, cursor, context=context)
        return await self._calls.fetch(request, Completions._read)

    async def inspect(
        self, code: str, cursor: Optional[int] = None, *, context: Optional[str] = None
    ) -> Inspection:
        """Describes the name at `cursor`, in characters (default: the end of `code`).

        Raises `Conflict` if the context is busy.
        """
        request = requests.assist(self.id, "inspect", code, cursor, context=context)
        return await self._calls.fetch(request, Inspection._read)

    async def is_complete(self, code: str, *, context: Optional[str] = None) -> Completeness:
        """Tells whether `code` can be executed or needs another line.

        Raises `Conflict` if the context is busy.
        """
        request = requests.assist(self.id, "is_complete", code, context=context)
        return await self._calls.fetch(request, Completeness._read)

    async def interrupt(self) -> Interrupt:
        """Raises KeyboardInterrupt in the code that `main` runs. Variables are kept."""
        request = requests.control(self.id, "interrupt")
        return await self._calls.fetch(request, Interrupt._read)

    async def reset(self) -> Reset:
        """Gives `main` a fresh kernel, and ends background commands unless they are to survive it.

        Files stay, and so do other contexts, unless `Reset.scope` is `session`.
        """
        request = requests.control(self.id, "reset")
        return await self._calls.fetch(request, Reset._read)

    async def contexts(self) -> list[ContextInfo]:
        """Returns the contexts, `main` first, then in the order in which they were opened."""
        return await self._calls.fetch(requests.contexts(self.id), context_list)

    def open_context(self, id: Optional[str] = None) -> Opening[AsyncContext]:
        """Opens a context: another kernel, ready when this has been awaited.

        Code in it runs beside that of other contexts, with variables and a queue of its own; files
        and limits are those of the session. As `async with session.open_context() as context`, the
        context is deleted at the end.

        Args:
            id: 1 to 64 of `A-Z a-z 0-9 _ -`; random if not given.

        Raises:
            Conflict: The id is taken.
            QuotaExceeded: There are as many contexts as allowed.
            ServerError: Its kernel could not be started.
        """

        async def opened() -> AsyncContext:
            request = requests.open_context(self.id, id)
            info = await self._calls.fetch(request, ContextInfo._read)
            return AsyncContext(self, self._calls, info.id, deletes_itself=True)

        return Opening(opened)

    def context(self, id: str) -> AsyncContext:
        """Returns an existing context, without a request. It is not deleted at the end."""
        return AsyncContext(self, self._calls, id, deletes_itself=False)

    async def keepalive(self) -> datetime:
        """Restarts the idle timeout. Returns when it expires."""
        request = requests.control(self.id, "keepalive")
        return await self._calls.fetch(request, lambda reply: reply.time("expires_at"))

    async def suspend(self) -> SessionInfo:
        """Suspends the session: its memory and files go to disk, and its processes end.

        It keeps its id. The next call that uses it resumes it first; `info()` does not.

        Raises:
            Conflict: Something is in the way (`not_imageable`), which `imageable()` names. The
                session goes on.
            QuotaExceeded: The tenant has as many images, or bytes of them, as it may.
        """
        return await self._calls.fetch(requests.control(self.id, "suspend"), SessionInfo._read)

    async def resume(self) -> SessionInfo:
        """Resumes the session. One that is not suspended stays as it is."""
        return await self._calls.fetch(requests.control(self.id, "resume"), SessionInfo._read)

    async def branch(
        self, count: int = 1, *, checkpoint: Optional[str] = None
    ) -> list[AsyncSession]:
        """Makes sessions from the state of this one, suspended or not, which stays as it is.

        As context managers they delete themselves at the end.

        Args:
            count: How many, at most 100. If one cannot be made, none is.
            checkpoint: The name of the checkpoint whose state they get; that of now if not given.

        Raises:
            Conflict: Something is in the way (`not_imageable`), which `imageable()` names.
            NotFound: There is no such checkpoint (`unknown_checkpoint`).
            QuotaExceeded: The tenant has no room for so many.
        """
        request = images.branch(self.id, count, checkpoint)
        page = await self._calls.fetch(request, session_page)
        return [
            AsyncSession(self._calls, info.id, deletes_itself=True, tools=self._tools)
            for info in page.entries
        ]

    async def imageable(self) -> Imageable:
        """Tells whether the session can be suspended or branched now, and what is in the way."""
        return await self._calls.fetch(images.imageable(self.id), Imageable._read)

    async def checkpoint(self, name: Optional[str] = None) -> Checkpoint:
        """Keeps the present state of the session, which goes on, for `rollback` and `branch`.

        Args:
            name: The daemon chooses one if not given.

        Raises:
            Conflict: The name is taken, or something is in the way (`not_imageable`), which
                `imageable()` names.
            QuotaExceeded: The tenant has as many images, or bytes of them, as it may.
        """
        return await self._calls.fetch(images.checkpoint(self.id, name), Checkpoint._read)

    async def checkpoints(self) -> list[Checkpoint]:
        """Returns the checkpoints, oldest first. A suspended session is not resumed."""
        return await self._calls.fetch(images.checkpoints(self.id), checkpoint_list)

    async def checkpoint_diff(self, name: str, from_: Optional[str] = None) -> CheckpointDiff:
        """Tells which variables are different at a checkpoint from those of another.

        Changes deep inside an object are not seen. A suspended session is not resumed.

        Args:
            name: The checkpoint.
            from_: The checkpoint to compare it with; the one before if not given.

        Raises:
            NotFound: There is no such checkpoint (`unknown_checkpoint`).
        """
        request = images.checkpoint_diff(self.id, name, from_)
        return await self._calls.fetch(request, CheckpointDiff._read)

    async def delete_checkpoint(self, name: str) -> bool:
        """Deletes a checkpoint. Returns whether it existed."""
        return await self._calls.delete(images.delete_checkpoint(self.id, name))

    async def rollback(self, checkpoint: str) -> SessionInfo:
        """Takes the session back to a checkpoint, and ends what it runs. The checkpoint stays.

        Memory, working directory and `/tmp` go back together. Homes, volumes and what left through
        the network do not.

        Raises:
            NotFound: There is no such checkpoint (`unknown_checkpoint`).
        """
        return await self._calls.fetch(images.rollback(self.id, checkpoint), SessionInfo._read)

    async def preview(self, port: int) -> Preview:
        """Shows the server on this port of the session to browsers, on an origin of its own."""
        request = requests.preview(self.id, port)
        return await self._calls.fetch(request, Preview._read)

    async def info(self) -> SessionInfo:
        """Returns state, protection, limits and usage."""
        return await self._calls.fetch(requests.session(self.id), SessionInfo._read)

    async def update(
        self,
        *,
        metadata: Optional[Mapping[str, Optional[str]]] = None,
        idle_timeout: Union[float, Literal["default"], None] = None,
        deadline: Union[datetime, Literal["default"], None] = None,
        limits: Optional[Limits] = None,
    ) -> SessionInfo:
        """Changes the session and returns it. All of it is done, or nothing.

        Args:
            metadata: Keys to set, or to remove where the value is None.
            idle_timeout: Seconds without use after which the daemon deletes the session, or
                `default` for the configured time.
            deadline: When the daemon deletes the session, whatever it does; with a time zone. Or
                `default` for the configured latest time, if any.
            limits: Limits to lower: `max_memory_mb`, `max_procs`, `cpu_cores`,
                `max_output_bytes` and `max_result_bytes`.

        Raises:
            Conflict: The session uses more than a limit that it was to get.
            InvalidRequest: A value that the session cannot have.
        """
        request = requests.update_session(
            self.id,
            metadata=metadata,
            idle_timeout=idle_timeout,
            deadline=deadline,
            limits=limits,
        )
        return await self._calls.fetch(request, SessionInfo._read)

    async def executions(self) -> AsyncIterator[ExecutionSummary]:
        """Yields the executions that wait or run, or whose result is kept, newest first."""
        after = None
        while True:
            page = await self._calls.fetch(requests.executions(self.id, after), execution_page)
            for execution in page.entries:
                yield execution
            after = page.next
            if after is None:
                return

    async def delete(self) -> bool:
        """Deletes the session. Returns, once nothing of it is left, whether it existed."""
        return await self._calls.delete(requests.delete_session(self.id))


T = TypeVar("T", bound=Union[AsyncSession, AsyncContext])


class Opening(Generic[T]):
    """A session or context that is being opened: await it, or use it as a context manager, which
    deletes it at the end."""

    def __init__(self, open: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._open = open
        self._opened: Optional[T] = None

    def __await__(self) -> Generator[Any, None, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, traceback)
