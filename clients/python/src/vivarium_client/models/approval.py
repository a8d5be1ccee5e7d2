"""Approvals: calls that wait until somebody allows or denies them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional, TypedDict, Union

from .._core.reading import Reader
from .names import ApprovalRule, ApprovalState, ExecutionKind, Network, Remember


class ApprovalRules(TypedDict, total=False):
    """What somebody has to allow first. A request may only tighten the rules that hold."""

    executions: ApprovalRule
    """Of code and commands."""
    egress: ApprovalRule
    """Of destinations that are on no list, for a new session of network `trusted`."""


@dataclass(frozen=True)
class ApprovalExecution:
    """An execution that waits for approval. Its code is untrusted text."""

    id: str
    """Unique within its session."""
    kind: ExecutionKind
    code: Optional[str]
    """The code; None for a command, and in lists."""
    argv: Optional[tuple[str, ...]]
    """The command; None for code, and in lists."""
    truncated: bool
    """Whether code or command are cut off after 64 KiB."""
    code_sha256: str
    code_bytes: int
    environment: str
    network: Union[Network, str]
    env: tuple[str, ...]
    """The names of the variables that the request sets."""
    files: tuple[str, ...]
    """The names of the files that the request brings."""
    tools: tuple[str, ...]
    """The names of the client's functions that its code can call."""
    timeout_ms: int

    @classmethod
    def _read(cls, reader: Reader) -> ApprovalExecution:
        argv = reader.fields.get("argv")
        return cls(
            id=reader.required_text("id"),
            kind=reader.text("kind"),
            code=reader.optional_text("code"),
            argv=None if argv is None else reader.strings("argv"),
            truncated=reader.flag("truncated"),
            code_sha256=reader.text("code_sha256"),
            code_bytes=reader.integer("code_bytes"),
            environment=reader.text("environment"),
            network=reader.text("network"),
            env=reader.strings("env"),
            files=reader.strings("files"),
            tools=reader.strings("tools"),
            timeout_ms=reader.integer("timeout_ms"),
        )


@dataclass(frozen=True)
class ApprovalEgress:
    """A destination that is on no list."""

    host: str
    port: int

    @classmethod
    def _read(cls, reader: Reader) -> ApprovalEgress:
        return cls(host=reader.text("host"), port=reader.integer("port"))


@dataclass(frozen=True)
class Approval:
    """A call that waits until somebody decides, or what became of it."""

    id: str
    state: ApprovalState
    tenant: str
    session_id: str
    execution: Optional[ApprovalExecution]
    """What is to run; None where a destination is to be reached."""
    egress: Optional[ApprovalEgress]
    """What is to be reached; None where something is to run."""
    asked_at: datetime
    expires_at: datetime
    """When it is denied if nobody decides."""
    ended_at: Optional[datetime]
    by: Optional[str]
    """Who decided."""
    reason: Optional[str]
    remember: Union[Remember, str]
    """What was remembered, or can be at most while it is pending."""

    @classmethod
    def _read(cls, reader: Reader) -> Approval:
        execution = reader.optional_object("execution")
        egress = reader.optional_object("egress")
        return cls(
            id=reader.required_text("id"),
            state=reader.text("state"),
            tenant=reader.text("tenant"),
            session_id=reader.text("session_id"),
            execution=None if execution is None else ApprovalExecution._read(execution),
            egress=None if egress is None else ApprovalEgress._read(egress),
            asked_at=reader.time("asked_at"),
            expires_at=reader.time("expires_at"),
            ended_at=reader.optional_time("ended_at"),
            by=reader.optional_text("by"),
            reason=reader.optional_text("reason"),
            remember=reader.text("remember"),
        )
