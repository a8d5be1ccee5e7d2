"""A context of a session, with blocking calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Optional

from .._core import requests
from .._core.calls import Calls
from .._core.content import InputFiles
from .._core.requests import AnswerForm, Outputs, ReprLimits
from .._core.tools import Tools
from .._core.transport import run
from ..errors import VivariumError
from ..models import (
    ApprovalRules,
    Completeness,
    Completions,
    ContextInfo,
    Inspection,
    Interrupt,
    Outcome,
    Reset,
)
from ..models.names import Keep
from ..models.policies import ExecutionPolicies
from .stream import EventStream

if TYPE_CHECKING:
    from .session import Session


class Context:
    """A kernel with variables and a queue of its own, in a session whose files and limits it
    shares.

    Get one from `Session.open_context` or `Session.context`.
    """

    id: str

    def __init__(self, session: Session, calls: Calls, id: str, *, deletes_itself: bool) -> None:
        self.id = id
        self._session = session
        self._calls = calls
        self._deletes_itself = deletes_itself

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._session.id

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r}, {self.id!r})"

    def __enter__(self) -> Context:
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
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Outcome:
        """Runs code here, as `Session.execute` does, and waits for its outcome."""
        return self._session.execute(
            code,
            context=self.id,
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
            tools=tools,
            tools_as_globals=tools_as_globals,
            tool_servers=tool_servers,
            policies=policies,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )

    def stream(
        self,
        code: str,
        *,
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
        cancel_on_disconnect: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> EventStream:
        """Runs like `execute`, and yields the events as they happen."""
        return self._session.stream(
            code,
            context=self.id,
            filename=filename,
            repr=repr,
            cwd=cwd,
            env=env,
            approval=approval,
            timeout=timeout,
            files=files,
            outputs=outputs,
            answer=answer,
            tools=tools,
            tools_as_globals=tools_as_globals,
            tool_servers=tool_servers,
            policies=policies,
            cancel_on_disconnect=cancel_on_disconnect,
            idempotency_key=idempotency_key,
        )

    def complete(self, code: str, cursor: Optional[int] = None) -> Completions:
        """Returns completions at `cursor`, in characters (default: the end of `code`).

        Raises `Conflict` if the context is busy.
        """
        return self._session.complete(code, cursor, context=self.id)

    def inspect(self, code: str, cursor: Optional[int] = None) -> Inspection:
        """Describes the name at `cursor`, in characters (default: the end of `code`).

        Raises `Conflict` if the context is busy.
        """
        return self._session.inspect(code, cursor, context=self.id)

    def is_complete(self, code: str) -> Completeness:
        """Tells whether `code` can be executed or needs another line.

        Raises `Conflict` if the context is busy.
        """
        return self._session.is_complete(code, context=self.id)

    def interrupt(self) -> Interrupt:
        """Raises KeyboardInterrupt in the code that runs here. Variables are kept."""
        request = requests.control_context(self.session_id, self.id, "interrupt")
        return run(self._calls.fetch(request, Interrupt._read))

    def reset(self) -> Reset:
        """Gives the context a fresh kernel. `Reset.scope` tells whether others had to end too."""
        request = requests.control_context(self.session_id, self.id, "reset")
        return run(self._calls.fetch(request, Reset._read))

    def info(self) -> ContextInfo:
        """Returns the context's state."""
        request = requests.context(self.session_id, self.id)
        return run(self._calls.fetch(request, ContextInfo._read))

    def delete(self) -> bool:
        """Deletes the context with what it runs. Returns whether it existed.

        Raises `Conflict` for `main`, which is deleted with its session.
        """
        return run(self._calls.delete(requests.delete_context(self.session_id, self.id)))
