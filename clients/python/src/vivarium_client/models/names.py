"""Names that the API gives things.

What the daemon answers may come from a later version, with names that are not listed here: these
types are open, and a checker still knows the names of today. What a request says is closed.
"""

from __future__ import annotations

from typing import Literal, Union

Network = Literal["none", "loopback", "trusted", "full"]
"""What a session can reach. The operator may forbid some."""

HomeKind = Literal["off", "session", "tenant"]
"""Whose files, which outlive it, a session has as its home."""

CheckpointMode = Literal["off", "named", "each"]
"""Which checkpoints a session has."""

Preset = Literal["compute", "files", "network", "full"]
"""A bundle of policies of the language by one name."""

Echo = Literal["last", "all", "none"]
"""Which expressions' values are shown."""

Format = Literal["text", "base64"]
"""How the content of a file is encoded."""

AnswerFormat = Literal["separate", "notebook", "both"]
"""Which fields of an outcome have what code printed, showed, returned and raised."""

ContentForm = Literal["full", "sizes"]
"""Whether an answer has content or only its sizes."""

Keep = Literal["head", "tail", "both"]
"""Which part of a long text is kept."""

Status = Union[
    Literal["ok", "error", "timed_out", "interrupted", "killed", "rejected"],
    str,
]
"""How an execution ended."""

Cause = Union[
    Literal[
        "memory_limit",
        "cpu_limit",
        "pids_limit",
        "disk_limit",
        "wall_time",
        "signal",
        "exited",
        "protocol",
        "interrupt",
        "reset",
        "deleted",
        "suspended",
        "expired",
        "draining",
        "queue_full",
        "kernel_start",
        "agent",
        "unknown",
        "approval_denied",
        "approval_timeout",
        "work_limit",
    ],
    str,
]
"""Why an execution or a kernel ended."""

Survival = Union[Literal["preserved", "lost"], str]
"""Whether variables survived an execution."""

ExecutionKind = Union[Literal["code", "command"], str]

ExecutionState = Union[Literal["queued", "awaiting_approval", "running", "done"], str]

ApprovalState = Union[Literal["pending", "allowed", "denied", "timed_out", "withdrawn"], str]

ApprovalRule = Literal["allow", "ask", "deny"]
"""What becomes of a call. `ask` has it wait until somebody decides."""

Remember = Literal["nothing", "session", "tenant"]
"""How much is remembered of an approval."""

SessionState = Union[
    Literal["starting", "idle", "running", "interrupting", "replacing", "suspended", "closed"],
    str,
]

ResetScope = Union[Literal["context", "session"], str]
"""How much a reset has ended."""

KernelOrigin = Union[Literal["forked", "executed", "executed_for_packages"], str]
"""Whether a kernel is a fork of a template or was executed."""

PolicySource = Union[
    Literal["default", "file", "environment", "command_line", "tenant", "request"], str
]
"""Where a value of the policy comes from."""

LayerStatus = Union[Literal["enforced", "partial", "unavailable", "off"], str]

TemplateState = Union[Literal["off", "building", "ready", "unavailable"], str]

SandboxMode = Union[Literal["auto", "on", "off"], str]

FileKind = Union[Literal["file", "directory", "link", "other"], str]

DisplayKind = Union[Literal["display", "update", "clear", "image", "video_frame"], str]

CallOutcome = Union[Literal["result", "error", "refused", "timeout", "withdrawn", "ended"], str]
"""How a call of a tool ended."""

CodeStatus = Union[Literal["complete", "incomplete", "invalid"], str]
"""Whether code can be executed."""
