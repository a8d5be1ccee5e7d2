"""The API's calls as requests. Arguments that are not given are not sent."""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Optional, TypedDict, Union

from ..models.approval import ApprovalRules
from ..models.home import VolumeMount
from ..models.names import (
    AnswerFormat,
    CheckpointMode,
    ContentForm,
    Format,
    HomeKind,
    Keep,
    Network,
    Remember,
    SessionState,
)
from ..models.policies import ExecutionPolicies, RunPolicies, SessionPolicies
from ..models.session import Limits
from .content import InputFiles, Source, input_files
from .request import Patience, Request, file_path, get, merge_patch, patch, path, post

Stored = Literal["homes", "volumes"]

UsagePeriod = Literal["hour", "day", "month", "total"]
"""What is added up in a row of usage."""


class _OutputName(TypedDict):
    name: str


class OutputSpec(_OutputName, total=False):
    """A file to return."""

    format: Format
    """By default text if the content is text."""


Outputs = Iterable[Union[str, OutputSpec]]
"""Files to return, by path in the working directory."""


class ReprLimits(TypedDict, total=False):
    """How far the repr of a value is written out."""

    max_items: int
    """Elements of each list, tuple, set, frozenset, dict or dict view; 1000 by default."""
    max_chars: int
    """Characters in all, 100 or more."""
    max_depth: int
    """Containers inside each other."""


class AnswerForm(TypedDict, total=False):
    """How an answer tells the outcome. What the daemon keeps of an execution does not depend on
    it: `Session.execution` may ask for another form."""

    format: AnswerFormat
    """`separate` fields (the default), `notebook`: `Outcome.outputs` alone, in order, or `both`."""
    content: ContentForm
    """`full` (the default), or `sizes` without the content of printed text, the value, displays
    and images. A stream has printed text all the same."""


def create_session(
    *,
    id: Optional[str],
    environment: Optional[str],
    limits: Optional[Limits],
    network: Optional[Network],
    egress_allow: Optional[Iterable[str]],
    env: Optional[Mapping[str, str]],
    approval: Optional[ApprovalRules] = None,
    idle_timeout: Optional[float],
    deadline: Optional[datetime],
    metadata: Optional[Mapping[str, str]],
    home: Optional[HomeKind],
    volumes: Optional[Iterable[VolumeMount]],
    auto_resume: Optional[bool],
    checkpoint: Optional[CheckpointMode],
    auto_rollback: Optional[bool],
    tools: Optional[list[dict[str, Any]]] = None,
    tools_as_globals: bool = False,
    tool_servers: Optional[Iterable[str]] = None,
    policies: Optional[SessionPolicies] = None,
    idempotency_key: Optional[str],
) -> Request:
    """POST /v1/sessions"""
    fields = {
        "id": id,
        "environment": environment,
        "limits": limits,
        "network": network,
        "egress_allow": None if egress_allow is None else list(egress_allow),
        "env": env,
        "approval": approval,
        "idle_timeout_ms": milliseconds(idle_timeout),
        "deadline": None if deadline is None else _time(deadline),
        "metadata": metadata,
        "home": home,
        "volumes": None if volumes is None else list(volumes),
        "auto_resume": auto_resume,
        "checkpoint": checkpoint,
        "auto_rollback": auto_rollback,
        "tools": tools,
        "tools_as_globals": tools_as_globals or None,
        "tool_servers": _names(tool_servers),
        **(policies or {}),
    }
    # No key but the caller's: with one that nobody knows the daemon would keep a session that
    # nobody knows.
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    once = idempotency_key is not None
    # A kernel is started meanwhile, which takes as long as the daemon allows.
    return post(path("sessions"), fields, headers=headers, idempotent=once, patience=Patience.WORK)


def execute(
    session_id: str,
    code: str,
    *,
    context: Optional[str],
    filename: Optional[str],
    repr: Optional[ReprLimits],
    cwd: Optional[str],
    env: Optional[Mapping[str, str]],
    approval: Optional[ApprovalRules] = None,
    timeout: Optional[float],
    files: Optional[InputFiles],
    outputs: Optional[Outputs],
    max_output_chars: Optional[int] = None,
    keep: Optional[Keep] = None,
    answer: Optional[AnswerForm],
    create: bool,
    cancel_on_disconnect: bool,
    tools: Optional[list[dict[str, Any]]] = None,
    tools_as_globals: bool = False,
    follows: bool = False,
    tool_servers: Optional[Iterable[str]] = None,
    policies: Optional[ExecutionPolicies] = None,
    idempotency_key: Optional[str],
) -> Request:
    """POST /v1/sessions/{id}/execute"""
    if follows:
        # A stream tells all of it. Its outcome is asked for in the form afterwards.
        max_output_chars, keep, answer = None, None, None
    common = _common(timeout, files, outputs, answer, cancel_on_disconnect)
    cut = {"max_output_chars": max_output_chars, "keep": keep}
    place = {"context": context, "filename": filename, "cwd": cwd, "env": env}
    called = {
        "tools": tools,
        "tools_as_globals": tools_as_globals or None,
        "tool_servers": _names(tool_servers),
        **(policies or {}),
    }
    fields = {"code": code, **place, "repr": repr, "approval": approval, **cut, **common, **called}
    where = path("sessions", session_id, "execute") + ("?create=true" if create else "")
    return _work(where, fields, idempotency_key)


def command(
    session_id: str,
    argv: Optional[Sequence[str]],
    *,
    shell: Optional[str],
    stdin: Union[str, bytes, None],
    stdin_open: bool = False,
    cwd: Optional[str],
    env: Optional[Mapping[str, str]],
    queued: bool = False,
    background: bool = False,
    survives_reset: bool = False,
    pty: Optional[tuple[int, int]] = None,
    approval: Optional[ApprovalRules] = None,
    timeout: Optional[float],
    files: Optional[InputFiles],
    outputs: Optional[Outputs],
    max_output_chars: Optional[int] = None,
    keep: Optional[Keep] = None,
    answer: Optional[AnswerForm] = None,
    cancel_on_disconnect: bool = False,
    idempotency_key: Optional[str],
) -> Request:
    """POST /v1/sessions/{id}/commands"""
    fields = {
        **_one_of(argv=argv, shell=shell),
        **_stdin(stdin),
        "stdin_open": stdin_open or None,
        "cwd": cwd,
        "env": env,
        "queued": queued or None,
        "background": background or None,
        "survives_reset": survives_reset or None,
        "pty": None if pty is None else _pty_size(*pty),
        "approval": approval,
        "max_output_chars": max_output_chars,
        "keep": keep,
        **_common(timeout, files, outputs, answer, cancel_on_disconnect),
    }
    return _work(path("sessions", session_id, "commands"), fields, idempotency_key)


def run(
    code: Optional[str],
    *,
    filename: Optional[str],
    repr: Optional[ReprLimits],
    argv: Optional[Sequence[str]],
    shell: Optional[str],
    stdin: Union[str, bytes, None],
    cwd: Optional[str],
    files: Optional[InputFiles],
    outputs: Optional[Outputs],
    max_output_chars: Optional[int] = None,
    keep: Optional[Keep] = None,
    answer: Optional[AnswerForm],
    limits: Optional[Limits],
    network: Optional[Network],
    approval: Optional[ApprovalRules] = None,
    timeout: Optional[float],
    env: Optional[Mapping[str, str]],
    environment: Optional[str],
    cancel_on_disconnect: bool,
    tools: Optional[list[dict[str, Any]]] = None,
    tools_as_globals: bool = False,
    follows: bool = False,
    tool_servers: Optional[Iterable[str]] = None,
    policies: Optional[RunPolicies] = None,
    idempotency_key: Optional[str],
) -> Request:
    """POST /v1/run"""
    if follows:
        # A stream tells all of it. Its outcome is asked for in the form afterwards.
        max_output_chars, keep, answer = None, None, None
    fields = {
        **_one_of(code=code, argv=argv, shell=shell),
        "filename": filename,
        "repr": repr,
        **_stdin(stdin),
        "cwd": cwd,
        "limits": limits,
        "network": network,
        "env": env,
        "environment": environment,
        "approval": approval,
        "max_output_chars": max_output_chars,
        "tools": tools,
        "tools_as_globals": tools_as_globals or None,
        "tool_servers": _names(tool_servers),
        **(policies or {}),
        "keep": keep,
        **_common(timeout, files, outputs, answer, cancel_on_disconnect),
    }
    return _work(path("run"), fields, idempotency_key)


def execution(
    session_id: str,
    execution_id: str,
    max_output_chars: Optional[int] = None,
    keep: Optional[Keep] = None,
    answer: Optional[AnswerForm] = None,
) -> Request:
    """GET /v1/sessions/{id}/executions/{execution_id}"""
    query = {"max_output_chars": max_output_chars, "keep": keep, **(answer or {})}
    return get(path("sessions", session_id, "executions", execution_id), query)


def output(session_id: str, execution_id: str, part: str, mime_type: Optional[str]) -> Request:
    """GET /v1/sessions/{id}/executions/{execution_id}/outputs/{part}"""
    where = path("sessions", session_id, "executions", execution_id, "outputs", *part.split("/"))
    return get(where, {"mime_type": mime_type})


def answer_call(session_id: str, execution_id: str, call_id: str, body: bytes) -> Request:
    """POST /v1/sessions/{id}/executions/{execution_id}/calls/{call_id}"""
    where = path("sessions", session_id, "executions", execution_id, "calls", call_id)
    # The same answer again changes nothing.
    return Request("POST", where, body, {"Content-Type": "application/json"}, idempotent=True)


def write_stdin(session_id: str, execution_id: str, data: bytes, *, close: bool) -> Request:
    """POST /v1/sessions/{id}/executions/{execution_id}/stdin"""
    where = path("sessions", session_id, "executions", execution_id, "stdin")
    # Answered when the command has read enough, which takes as long as the daemon allows. Sent
    # again, it would be read twice.
    return Request(
        "POST",
        where + ("?close=true" if close else ""),
        data,
        {"Content-Type": "application/octet-stream"},
        idempotent=not data,
        patience=Patience.WORK,
    )


def resize(session_id: str, execution_id: str, columns: int, rows: int) -> Request:
    """POST /v1/sessions/{id}/executions/{execution_id}/resize"""
    where = path("sessions", session_id, "executions", execution_id, "resize")
    return post(where, _pty_size(columns, rows), idempotent=True)


def signal(session_id: str, execution_id: str, name: str) -> Request:
    """POST /v1/sessions/{id}/executions/{execution_id}/signal"""
    return post(
        path("sessions", session_id, "executions", execution_id, "signal"), {"signal": name}
    )


def events(session_id: str, execution_id: str, after: Optional[int]) -> Request:
    """As `execution`, answered by the events after number `after`, or by all that are kept."""
    request = execution(session_id, execution_id).streamed()
    if after is None:
        return request
    return request.with_headers({"Last-Event-ID": str(after)}, Patience.EVENTS)


def assist(
    session_id: str,
    call: str,
    code: str,
    cursor: Optional[int] = None,
    *,
    context: Optional[str] = None,
) -> Request:
    """POST /v1/sessions/{id}/complete, /inspect and /is_complete"""
    where = path("sessions", session_id, call)
    fields = {"code": code, "cursor": cursor, "context": context}
    return post(where, fields, idempotent=True)


def session(session_id: str) -> Request:
    """GET /v1/sessions/{id}"""
    return get(path("sessions", session_id))


def delete_session(session_id: str) -> Request:
    """DELETE /v1/sessions/{id}"""
    # Answered when all its processes are gone.
    return Request("DELETE", path("sessions", session_id), idempotent=True, patience=Patience.WORK)


def control(session_id: str, call: str) -> Request:
    """POST /v1/sessions/{id}/interrupt, /reset, /keepalive, /suspend and /resume"""
    where = path("sessions", session_id, call)
    # A second one of the others could hit what came after the first.
    return post(where, idempotent=call in ("keepalive", "resume"), patience=Patience.WORK)


def contexts(session_id: str) -> Request:
    """GET /v1/sessions/{id}/contexts"""
    return get(path("sessions", session_id, "contexts"))


def open_context(session_id: str, context: Optional[str]) -> Request:
    """POST /v1/sessions/{id}/contexts"""
    # A kernel is started meanwhile. Sent again it would be another context, or find its id taken.
    return post(path("sessions", session_id, "contexts"), {"id": context}, patience=Patience.WORK)


def context(session_id: str, context: str) -> Request:
    """GET /v1/sessions/{id}/contexts/{context}"""
    return get(path("sessions", session_id, "contexts", context))


def delete_context(session_id: str, context: str) -> Request:
    """DELETE /v1/sessions/{id}/contexts/{context}"""
    where = path("sessions", session_id, "contexts", context)
    return Request("DELETE", where, idempotent=True, patience=Patience.WORK)


def control_context(session_id: str, context: str, call: str) -> Request:
    """POST /v1/sessions/{id}/contexts/{context}/interrupt and /reset"""
    # A second one could hit what came after the first.
    return post(path("sessions", session_id, "contexts", context, call), patience=Patience.WORK)


def admin_status() -> Request:
    """GET /v1/admin/status"""
    return get(path("admin", "status"))


def admin_tenants() -> Request:
    """GET /v1/admin/tenants"""
    return get(path("admin", "tenants"))


def pause(tenant: Optional[str], reason: Optional[str]) -> Request:
    """POST /v1/admin/pause"""
    return post(path("admin", "pause"), {"tenant": tenant, "reason": reason}, idempotent=True)


def resume(tenant: Optional[str]) -> Request:
    """POST /v1/admin/resume"""
    return post(path("admin", "resume"), {"tenant": tenant}, idempotent=True)


def drain(exit: bool) -> Request:
    """POST /v1/admin/drain"""
    return post(path("admin", "drain"), {"exit": exit})


def usage(
    start: Optional[datetime],
    end: Optional[datetime],
    period: Optional[UsagePeriod],
    tenant: Optional[str],
) -> Request:
    """GET /v1/admin/usage"""
    times = {"from": start, "to": end}
    given = {name: None if at is None else _time(at) for name, at in times.items()}
    return get(path("admin", "usage"), {**given, "period": period, "tenant": tenant})


def approvals(after: Optional[str], everything: bool) -> Request:
    """GET /v1/approvals"""
    query = {"all": "true" if everything else None, "after": after}
    return get(path("approvals"), query)


def approval(id: str) -> Request:
    """GET /v1/approvals/{id}"""
    return get(path("approvals", id))


def decide(
    id: str, decision: Literal["allow", "deny"], remember: Optional[Remember], reason: Optional[str]
) -> Request:
    """POST /v1/approvals/{id}"""
    # Sent again it would find the call decided.
    fields = {"decision": decision, "remember": remember, "reason": reason}
    given = {name: value for name, value in fields.items() if value is not None}
    return post(path("approvals", id), given)


def homes() -> Request:
    """GET /v1/homes"""
    return get(path("homes"))


def volumes() -> Request:
    """GET /v1/volumes"""
    return get(path("volumes"))


def create_volume(name: str) -> Request:
    """POST /v1/volumes"""
    # Sent again it would find its name taken.
    return post(path("volumes"), {"name": name})


def environments() -> Request:
    """GET /v1/environments"""
    return get(path("environments"))


def build_environment(
    name: str,
    requirements: Optional[str],
    pyproject: Optional[str],
    lock: Optional[str],
    base: Optional[str],
) -> Request:
    """POST /v1/environments"""
    # Sent again it would find its own build running.
    fields = {"name": name, "requirements": requirements, "pyproject": pyproject, "lock": lock}
    return post(path("environments"), {**fields, "base": base})


def environment(name: str) -> Request:
    """GET /v1/environments/{name}"""
    return get(path("environments", name))


def delete_environment(name: str) -> Request:
    """DELETE /v1/environments/{name}"""
    return Request("DELETE", path("environments", name), idempotent=True, patience=Patience.WORK)


def build(name: str) -> Request:
    """GET /v1/environments/{name}/build"""
    return get(path("environments", name, "build"))


def build_log(name: str) -> Request:
    """GET /v1/environments/{name}/build/log"""
    return get(path("environments", name, "build", "log"))


def stored(kind: Stored, name: str) -> Request:
    """GET /v1/homes/{id} and /v1/volumes/{name}"""
    return get(path(kind, name))


def delete_stored(kind: Stored, name: str) -> Request:
    """DELETE /v1/homes/{id} and /v1/volumes/{name}"""
    return Request("DELETE", path(kind, name), idempotent=True, patience=Patience.WORK)


def stored_files(
    kind: Stored, name: str, directory: str, recursive: bool, after: Optional[str]
) -> Request:
    """GET /v1/homes/{id}/files and /v1/volumes/{name}/files"""
    query = {"path": directory, "recursive": str(recursive).lower(), "after": after}
    return get(path(kind, name, "files"), query)


def stored_file(kind: Stored, name: str, file: str) -> Request:
    """GET /v1/homes/{id}/files/{path} and /v1/volumes/{name}/files/{path}"""
    return get(path(kind, name, "files", *file.split("/")))


def delete_stored_file(kind: Stored, name: str, file: str) -> Request:
    """DELETE /v1/homes/{id}/files/{path} and /v1/volumes/{name}/files/{path}"""
    return Request("DELETE", path(kind, name, "files", *file.split("/")), idempotent=True)


def preview(session_id: str, port: int) -> Request:
    """POST /v1/sessions/{id}/previews"""
    return post(path("sessions", session_id, "previews"), {"port": port}, idempotent=True)


def sessions(
    after: Optional[str],
    limit: Optional[int],
    *,
    state: Optional[SessionState] = None,
    metadata: Optional[Mapping[str, str]] = None,
) -> Request:
    """GET /v1/sessions"""
    keys = {f"metadata[{key}]": value for key, value in (metadata or {}).items()}
    return get(path("sessions"), {"limit": limit, "after": after, "state": state, **keys})


def update_session(
    session_id: str,
    *,
    metadata: Optional[Mapping[str, Optional[str]]],
    idle_timeout: Union[float, Literal["default"], None],
    deadline: Union[datetime, Literal["default"], None],
    limits: Optional[Limits],
) -> Request:
    """PATCH /v1/sessions/{id}"""
    fields: dict[str, Any] = {}
    if metadata is not None:
        fields["metadata"] = dict(metadata)
    if idle_timeout is not None:
        is_default = idle_timeout == "default"
        fields["idle_timeout_ms"] = None if is_default else milliseconds(float(idle_timeout))
    if deadline is not None:
        fields["deadline"] = None if deadline == "default" else _time(deadline)
    if limits is not None:
        fields["limits"] = limits
    return merge_patch(path("sessions", session_id), fields)


def executions(session_id: str, after: Optional[str]) -> Request:
    """GET /v1/sessions/{id}/executions"""
    return get(path("sessions", session_id, "executions"), {"after": after})


def _time(time: Union[datetime, str]) -> str:
    if not isinstance(time, datetime) or time.tzinfo is None:
        raise ValueError("a deadline is a datetime with a time zone")
    return time.isoformat()


def host() -> Request:
    """GET /v1/host"""
    return get(path("host"))


def list_files(
    session_id: str, directory: str, recursive: bool, after: Optional[str], limit: Optional[int]
) -> Request:
    """GET /v1/sessions/{id}/files"""
    query = {
        "path": directory or None,
        "recursive": "true" if recursive else None,
        "after": after,
        "limit": limit,
    }
    return get(path("sessions", session_id, "files"), query)


def get_file(session_id: str, name: str, offset: int, length: Optional[int]) -> Request:
    """GET /v1/sessions/{id}/files/{path}"""
    if offset < 0 or (length is not None and length < 1):
        raise ValueError("offset is at least 0, and length at least 1")
    request = get(file_path(session_id, _named(name)))
    if offset == 0 and length is None:
        return request
    last = "" if length is None else offset + length - 1
    return request.with_headers({"Range": f"bytes={offset}-{last}"}, Patience.CALL)


def put_file(session_id: str, name: str, source: Source) -> Request:
    """PUT /v1/sessions/{id}/files/{path}"""
    headers = {"Content-Type": "application/octet-stream"}
    where = file_path(session_id, _named(name))
    return Request("PUT", where, source, headers, idempotent=True)


def put_tar(session_id: str, directory: str, source: Source) -> Request:
    """PUT /v1/sessions/{id}/files/{path}?unpack=true"""
    headers = {"Content-Type": "application/x-tar"}
    where = file_path(session_id, directory) if directory else path("sessions", session_id, "files")
    return Request("PUT", f"{where}?unpack=true", source, headers, idempotent=True)


def delete_file(session_id: str, name: str) -> Request:
    """DELETE /v1/sessions/{id}/files/{path}"""
    return Request("DELETE", file_path(session_id, _named(name)), idempotent=True)


def watch(session_id: str, directory: str, recursive: bool) -> Request:
    """GET /v1/sessions/{id}/watch"""
    query = {"path": directory or None, "recursive": None if recursive else "false"}
    return get(path("sessions", session_id, "watch"), query).streamed()


def stat(session_id: str, name: str) -> Request:
    """GET /v1/sessions/{id}/files/{path}?info=true"""
    return get(file_path(session_id, _named(name)), {"info": "true"})


def make_directory(session_id: str, name: str) -> Request:
    """PUT /v1/sessions/{id}/files/{path}?directory=true"""
    where = file_path(session_id, _named(name))
    return Request("PUT", f"{where}?directory=true", idempotent=True)


def move(session_id: str, name: str, to: str, replace: bool) -> Request:
    """PATCH /v1/sessions/{id}/files/{path}"""
    where = file_path(session_id, _named(name))
    return patch(where, {"move_to": to, "replace": replace})


def chmod(session_id: str, name: str, mode: Union[int, str]) -> Request:
    """PATCH /v1/sessions/{id}/files/{path}"""
    text = f"{mode:04o}" if isinstance(mode, int) else mode
    return patch(file_path(session_id, _named(name)), {"mode": text}, idempotent=True)


def _work(where: str, fields: Mapping[str, Any], key: Optional[str]) -> Request:
    """Returns a request that runs something, with a key by which the daemon recognises a retry."""
    headers = {"Idempotency-Key": key or str(uuid.uuid4())}
    return post(where, fields, headers=headers, idempotent=True, patience=Patience.WORK)


def _common(
    timeout: Optional[float],
    files: Optional[InputFiles],
    outputs: Optional[Outputs],
    answer: Optional[AnswerForm],
    cancel_on_disconnect: bool,
) -> dict[str, Any]:
    return {
        "timeout_ms": milliseconds(timeout),
        "files": input_files(files) or None,
        "outputs": _outputs(outputs) or None,
        "answer": answer,
        "cancel_on_disconnect": cancel_on_disconnect or None,
    }


def _outputs(outputs: Optional[Outputs]) -> list[Mapping[str, Any]]:
    if isinstance(outputs, (str, bytes, Mapping)):
        raise TypeError("outputs is a list of names")
    return [{"name": one} if isinstance(one, str) else one for one in outputs or ()]


def _names(names: Optional[Iterable[str]]) -> Optional[list[str]]:
    if isinstance(names, str):
        raise TypeError("tool_servers is a list of names")
    return None if names is None else list(names)


def _one_of(**given: object) -> dict[str, object]:
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) != 1:
        raise TypeError(f"give one of {', '.join(given)}")
    if isinstance(named.get("argv"), (str, bytes)):
        raise TypeError("argv is a list: for a line of shell, give shell")
    return {
        name: list(value) if name == "argv" else value  # type: ignore[call-overload]
        for name, value in named.items()
    }


def _stdin(stdin: Union[str, bytes, None]) -> dict[str, str]:
    if stdin is None:
        return {}
    if isinstance(stdin, str):
        return {"stdin": stdin}
    return {"stdin_base64": base64.b64encode(stdin).decode()}


def _pty_size(columns: int, rows: int) -> dict[str, int]:
    return {"columns": columns, "rows": rows}


def milliseconds(seconds: Optional[float]) -> Optional[int]:
    """Converts seconds to the API's unit. The daemon refuses impossible times."""
    if seconds is None:
        return None
    if not math.isfinite(seconds):
        raise ValueError("a time is a finite number of seconds")
    return math.ceil(seconds * 1000)


def _named(name: str) -> str:
    if not name:
        raise ValueError("a file has a name")
    return name
