"""The blocking client of a daemon."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Optional, Union

import httpx

from .._core import requests
from .._core.address import Address
from .._core.calls import Calls
from .._core.content import InputFiles
from .._core.listing import session_page
from .._core.requests import AnswerForm, Outputs, ReprLimits
from .._core.stream import Stream, finish
from .._core.tools import Tools, ToolSet
from .._core.transport import run
from ..models import (
    ApprovalRules,
    CheckpointMode,
    HomeKind,
    HostInfo,
    Limits,
    Network,
    Outcome,
    SessionInfo,
    VolumeMount,
)
from ..models.names import Keep, SessionState
from ..models.policies import RunPolicies, SessionPolicies
from .admin import Admin
from .approvals import Approvals
from .environments import Environments
from .images import Images
from .session import Session
from .stored import Homes, Volumes
from .stream import EventStream
from .tools import ThreadAnswerer
from .transport import BlockingTransport


class Client:
    """A Vivarium daemon.

    Args:
        url: `http://HOST:PORT` or `unix:/PATH`. Defaults to `VIVARIUM_URL`, then to
            `http://127.0.0.1:8470`.
        token: The tenant's bearer token. Defaults to `VIVARIUM_TOKEN`.
        timeout: Seconds for connecting, and for every call that does not run code. Calls that
            run code have a `timeout` of their own.
        max_retries: How often a failed call is retried where it cannot be carried out twice:
            the daemon was not reached, the call is idempotent (executions are: they carry an
            Idempotency-Key), or it was refused for now (429, 503), after the time that the
            daemon asks for. 0 switches retries off.
        transport: Replaces the transport that is made for `url`, for proxies and certificates.

    Threads may share a client. Close it, or use it as a context manager.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        *,
        timeout: float = 30.0,
        max_retries: int = 2,
        transport: Optional[httpx.BaseTransport] = None,
    ) -> None:
        self._address = Address.of(url, token)
        self._transport = BlockingTransport(self._address, timeout, transport)
        self._calls = Calls(self._transport, max_retries)

    @property
    def url(self) -> str:
        """The daemon's address."""
        return self._address.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self._transport.close()

    def run(
        self,
        code: Optional[str] = None,
        *,
        filename: Optional[str] = None,
        repr: Optional[ReprLimits] = None,
        argv: Optional[Sequence[str]] = None,
        shell: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        max_output_chars: Optional[int] = None,
        keep: Optional[Keep] = None,
        answer: Optional[AnswerForm] = None,
        limits: Optional[Limits] = None,
        network: Optional[Network] = None,
        approval: Optional[ApprovalRules] = None,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        environment: Optional[str] = None,
        tools: Optional[Tools] = None,
        tools_as_globals: bool = False,
        tool_servers: Optional[Iterable[str]] = None,
        policies: Optional[RunPolicies] = None,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Outcome:
        """Runs code or a command in a session of its own, and waits for the outcome.

        Args:
            code: Python to run. Give exactly one of `code`, `argv` and `shell`.
            filename: Name of the code in tracebacks. If it is a file in the working directory,
                `__file__` is its path, and modules beside it can be imported.
            repr: How far the value and displays are written out: see `ReprLimits`.
            argv: A program and its arguments.
            shell: A line for `/bin/sh -c`.
            stdin: Standard input of a command.
            cwd: Working directory, in the session's.
            files: Files to write into the working directory first, by path. A `str` is text, a
                `Path` a local file.
            outputs: Files to return in `Outcome.files`.
            max_output_chars: The most characters of each text in the outcome, 100 or more;
                `Outcome.cuts` tells what is missing.
            keep: Which part of a longer text is kept: `head`, `tail` or `both` (the default).
            answer: How the outcome is told: see `AnswerForm`.
            limits: Limits; they may only be tighter than the configured ones.
            network: `none`, `loopback` or, where the operator allows it, `trusted` or `full`.
            approval: Whether somebody has to allow it first, such as `{"executions": "ask"}`: no
                less than the rule of its tenant.
            timeout: Seconds that the code may run, from when a kernel gets it.
            env: Environment variables of the session.
            environment: Name of a configured environment.
            tools: Functions of this process that the code can call:
                `from vivarium import tools; tools.NAME(…)`. Plain functions, sync or async, or
                `Tool`. Their arguments are untrusted.
            tools_as_globals: Put the tools' names into the code's globals too.
            tool_servers: Names of the operator's servers whose tools the code can call:
                `tools.SERVER_NAME(…)`.
            policies: Policies of the language, such as `{"max_work": 1_000_000}`.
            cancel_on_disconnect: End the run when this client disconnects.
            idempotency_key: Another call with the same key returns the outcome of the first.

        Raises:
            ApiError: The daemon refused the request.
            TransportError: The daemon was not reached, or the connection broke.
        """
        tool_set = ToolSet(tools)
        request = requests.run(
            code,
            filename=filename,
            repr=repr,
            argv=argv,
            shell=shell,
            stdin=stdin,
            cwd=cwd,
            files=files,
            outputs=outputs,
            max_output_chars=max_output_chars,
            keep=keep,
            answer=answer,
            limits=limits,
            network=network,
            approval=approval,
            timeout=timeout,
            env=env,
            environment=environment,
            tools=tool_set.declared(),
            follows=bool(tool_set),
            tools_as_globals=tools_as_globals,
            tool_servers=tool_servers,
            policies=policies,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        if tool_set:
            answerer = ThreadAnswerer(self._calls, tool_set)
            stream = Stream(self._calls, request.streamed(), answerer=answerer)
            return run(finish(self._calls, stream, max_output_chars, keep, answer))
        return run(self._calls.fetch(request, Outcome._read))

    def stream(
        self,
        code: Optional[str] = None,
        *,
        filename: Optional[str] = None,
        repr: Optional[ReprLimits] = None,
        argv: Optional[Sequence[str]] = None,
        shell: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        cwd: Optional[str] = None,
        files: Optional[InputFiles] = None,
        outputs: Optional[Outputs] = None,
        answer: Optional[AnswerForm] = None,
        limits: Optional[Limits] = None,
        network: Optional[Network] = None,
        approval: Optional[ApprovalRules] = None,
        timeout: Optional[float] = None,
        env: Optional[Mapping[str, str]] = None,
        environment: Optional[str] = None,
        tools: Optional[Tools] = None,
        tools_as_globals: bool = False,
        tool_servers: Optional[Iterable[str]] = None,
        policies: Optional[RunPolicies] = None,
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> EventStream:
        """Runs like `run`, and yields the events as they happen."""
        tool_set = ToolSet(tools)
        request = requests.run(
            code,
            filename=filename,
            repr=repr,
            argv=argv,
            shell=shell,
            stdin=stdin,
            cwd=cwd,
            files=files,
            outputs=outputs,
            answer=answer,
            limits=limits,
            network=network,
            approval=approval,
            timeout=timeout,
            env=env,
            environment=environment,
            tools=tool_set.declared(),
            tools_as_globals=tools_as_globals,
            tool_servers=tool_servers,
            policies=policies,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )
        answerer = ThreadAnswerer(self._calls, tool_set) if tool_set else None
        return EventStream._open(Stream(self._calls, request.streamed(), answerer=answerer))

    def session(
        self,
        id: Optional[str] = None,
        *,
        environment: Optional[str] = None,
        limits: Optional[Limits] = None,
        network: Optional[Network] = None,
        egress_allow: Optional[Iterable[str]] = None,
        env: Optional[Mapping[str, str]] = None,
        approval: Optional[ApprovalRules] = None,
        idle_timeout: Optional[float] = None,
        deadline: Optional[datetime] = None,
        metadata: Optional[Mapping[str, str]] = None,
        home: Optional[HomeKind] = None,
        volumes: Optional[Iterable[VolumeMount]] = None,
        auto_resume: Optional[bool] = None,
        checkpoint: Optional[CheckpointMode] = None,
        auto_rollback: Optional[bool] = None,
        tools: Optional[Tools] = None,
        tools_as_globals: bool = False,
        tool_servers: Optional[Iterable[str]] = None,
        policies: Optional[SessionPolicies] = None,
        idempotency_key: Optional[str] = None,
    ) -> Session:
        """Creates a session and returns when its kernel is ready.

        As a context manager, the session is deleted at the end.

        Args:
            id: 1 to 64 of `A-Z a-z 0-9 _ -`; random if not given.
            environment: Name of a configured environment.
            limits: Limits; they may only be tighter than the configured ones.
            network: `none`, `loopback` or, where the operator allows it, `trusted` or `full`.
            egress_allow: Where a session of network `trusted` may connect to, within what its
                tenant may: `HOST`, `HOST:PORT` or `*.DOMAIN`.
            env: Environment variables of the kernel.
            approval: What somebody has to allow first, such as `{"executions": "ask"}`: no less
                than the tenant's rule.
            idle_timeout: Seconds without use after which the daemon deletes the session.
            deadline: When the daemon deletes the session, whatever it does; with a time zone.
            metadata: Strings that `Session.info` returns.
            home: Files that outlive the session, at `/home/sandbox`: `session` (those of earlier
                sessions of the same id) or `tenant`, where the operator allows it.
            volumes: Volumes that it has, such as `{"name": "data", "read_only": True}`.
            auto_resume: Whether calls resume the session where it is suspended, as they do by
                default; if not, `resume` alone does, and other calls are a `Conflict`
                (`suspended`).
            checkpoint: Which checkpoints it has: `off` (none: `checkpoint` is a `Conflict`),
                `named` (those that `checkpoint` makes) or `each` (and one after every execution,
                named `after-` and its number); without it, those that the operator has chosen.
            auto_rollback: Whether code that loses its kernel has the session roll back to its last
                checkpoint before it is answered: then `Outcome.rolled_back` is true.
            tools: Functions of this process that code of all its executions can call, as long as
                this object runs it: see `execute`.
            tools_as_globals: Put the tools' names into the code's globals too.
            tool_servers: Names of the operator's servers whose tools the code can call:
                `tools.SERVER_NAME(…)`.
            policies: Policies of the language, such as `{"max_work": 1_000_000}`.
            idempotency_key: Another call with the same key returns the session of the first.
                With a key, a call whose connection broke is retried.

        Raises:
            Conflict: The id is taken, or a volume is in use.
            QuotaExceeded: There are as many sessions as allowed.
            Unavailable: The host has no room for another session.
        """
        tool_set = ToolSet(tools)
        request = requests.create_session(
            id=id,
            environment=environment,
            limits=limits,
            network=network,
            egress_allow=egress_allow,
            env=env,
            approval=approval,
            idle_timeout=idle_timeout,
            deadline=deadline,
            metadata=metadata,
            home=home,
            volumes=volumes,
            auto_resume=auto_resume,
            checkpoint=checkpoint,
            auto_rollback=auto_rollback,
            tools=tool_set.declared(),
            tools_as_globals=tools_as_globals,
            tool_servers=tool_servers,
            policies=policies,
            idempotency_key=idempotency_key,
        )
        info = run(self._calls.fetch(request, SessionInfo._read))
        return Session(self._calls, info.id, deletes_itself=True, tools=tool_set)

    def attach(self, id: str) -> Session:
        """Returns an existing session, without a request. It is not deleted at the end."""
        return Session(self._calls, id, deletes_itself=False)

    def sessions(
        self,
        *,
        state: Optional[SessionState] = None,
        metadata: Optional[Mapping[str, str]] = None,
    ) -> Iterator[SessionInfo]:
        """Yields the tenant's sessions, ordered by id: those with all that is given."""
        after = None
        while True:
            request = requests.sessions(after, None, state=state, metadata=metadata)
            page = run(self._calls.fetch(request, session_page))
            yield from page.entries
            after = page.next
            if after is None:
                return

    @property
    def admin(self) -> Admin:
        """The daemon's administration, for who may."""
        return Admin(self._calls)

    @property
    def approvals(self) -> Approvals:
        """Calls that wait until somebody allows or denies them."""
        return Approvals(self._calls)

    @property
    def environments(self) -> Environments:
        """The tenant's environments."""
        return Environments(self._calls)

    @property
    def images(self) -> Images:
        """Images of the tenant's suspended sessions."""
        return Images(self._calls)

    @property
    def homes(self) -> Homes:
        """The tenant's homes."""
        return Homes(self._calls)

    @property
    def volumes(self) -> Volumes:
        """The tenant's volumes."""
        return Volumes(self._calls)

    def host(self) -> HostInfo:
        """Returns what the host offers."""
        return run(self._calls.fetch(requests.host(), HostInfo._read))
