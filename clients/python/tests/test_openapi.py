"""The models and events have every field that the daemon's OpenAPI document describes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import httpx
import pytest

from daemon import Daemon
from vivarium_client import (
    AnswerForm,
    AsyncClient,
    AsyncContext,
    AsyncSession,
    Client,
    Context,
    ReprLimits,
    Session,
    events,
    models,
)
from vivarium_client.models import names

MODELS: dict[str, type] = {
    "AdminStatus": models.AdminStatus,
    "AdminTenant": models.AdminTenant,
    "ApprovalEgress": models.ApprovalEgress,
    "ApprovalExecution": models.ApprovalExecution,
    "ApprovalInfo": models.Approval,
    "ApprovalSpec": models.ApprovalRules,
    "AwaitingApprovalEvent": events.AwaitingApproval,
    "BuildInfo": models.BuildInfo,
    "BuiltEnvironmentInfo": models.BuiltEnvironment,
    "CallEndedEvent": events.CallEnded,
    "CallEvent": events.Call,
    "Capacity": models.Capacity,
    "ChangedFile": models.ChangedFile,
    "Checkpoint": models.Checkpoint,
    "CheckpointDiff": models.CheckpointDiff,
    "CompleteReply": models.Completions,
    "ContextInfo": models.ContextInfo,
    "Display": models.DisplayData,
    "DisplayEvent": events.Display,
    "DoneEvent": models.Outcome,
    "DrainReply": models.DrainReply,
    "EncodedImage": models.Image,
    "EnvironmentInfo": models.Environment,
    "EnvironmentStatus": models.EnvironmentStatus,
    "ExecutionInfo": models.Execution,
    "ExecutionSummary": models.ExecutionSummary,
    "ExecutionUsage": models.Usage,
    "FailedReload": models.FailedReload,
    "FileEventInfo": models.FileEvent,
    "FileInfo": models.FileEntry,
    "HomeInfo": models.HomeInfo,
    "HostInfo": models.HostInfo,
    "ImageInfo": models.SessionImage,
    "ImageableReply": models.Imageable,
    "InspectReply": models.Inspection,
    "InterruptReply": models.Interrupt,
    "IsCompleteReply": models.Completeness,
    "KernelInfo": models.Kernel,
    "LedgerInfo": models.LedgerInfo,
    "LimitsInfo": models.Limits,
    "LimitsSpec": models.Limits,
    "Match": models.Completion,
    "MemoryCapacity": models.MemoryCapacity,
    "Outcome": models.Outcome,
    "OutputEvent": events.Stdout,
    "OutputFile": models.OutputFile,
    "PauseInfo": models.PauseInfo,
    "PauseReply": models.PauseReply,
    "PolicyEntry": models.PolicyEntry,
    "PoolInfo": models.Pool,
    "PreviewReply": models.Preview,
    "PreviousEnd": models.PreviousEnd,
    "ResetReply": models.Reset,
    "SessionInfo": models.SessionInfo,
    "SessionUsage": models.SessionUsage,
    "StorageInfo": models.Storage,
    "StartedEvent": events.Started,
    "StoredImage": models.StoredImage,
    "TemplateInfo": models.Template,
    "TenantSourcesInfo": models.TenantSourcesInfo,
    "TextCut": models.TextCut,
    "TokenInfo": models.TokenInfo,
    "UsageRow": models.UsageRow,
    "ValueInfo": models.Value,
    "Variable": models.Variable,
    "VolumeInfo": models.VolumeInfo,
    "VolumeMount": models.VolumeMount,
}

NO_MODEL = {
    # Requests: the calls' parameters.
    *("AnswerForm", "CommandRequest", "ContextSpec", "ExecuteRequest", "FileChange", "FileSpec"),
    *("IsCompleteRequest", "OutputSpec", "PreviewRequest", "ProbeRequest", "PtySize"),
    *(
        "BranchRequest",
        "BuildRequest",
        "CheckpointRequest",
        "ReprSpec",
        "RollbackRequest",
        "RunRequest",
        "SessionPatch",
        "SessionSpec",
        "SignalRequest",
        "VolumeSpec",
    ),
    # Tools: what `Tool` declares, and what is answered by itself.
    *("CallAnswer", "CallError", "CallInfo", "CallList", "ContinueRequest", "ToolSpec"),
    *("WaitingReply", "WaitingStatus"),
    # Lists of models, and strings.
    *("Completeness", "Content", "ContextList", "FileFormat", "FileList", "Keep", "OutputFormat"),
    *(
        "ExecutionKind",
        "ExecutionPage",
        "PolicySource",
        "Progress",
        "ResetScope",
        "SessionPage",
        "SessionState",
    ),
    *("AuditEventsSpec", "Echo", "ImportsSpec", "NamesSpec", "Preset"),
    *("ApprovalDecision", "ApprovalPage", "ApprovalRule", "ApprovalState"),
    *("DecideRequest", "Remember"),
    *("BuiltEnvironmentList", "CheckpointList", "HomeList", "ImagePage", "VolumeList"),
    # As nbformat takes it.
    *("ContentInfo", "Metadata", "NotebookOutput"),
    # Errors, and replies without anything new.
    *("BackgroundReply", "BranchReply", "FilesWritten", "KeepaliveReply", "Problem", "StdinReply"),
    # For operators.
    *("Health", "TenantInfo", "TenantList"),
    *("AdminTenantList", "DrainRequest", "PauseRequest", "Scope", "UsageReport", "UsageSource"),
    "CollectReply",
}

RENAMED = {
    "CheckpointDiff": {"from": "from_"},
    "DisplayEvent": {"mime": "content"},
    "FileEventInfo": {"from": "moved_from"},
    "Outcome": {"result": "value"},
    # The session that was interrupted or reset is the caller's.
    "InterruptReply": {"session_id": "execution_id"},
    "ResetReply": {"session_id": "context"},
    "OutputFile": {"text": "content", "data": "content"},
}


@pytest.fixture(scope="module")
def schemas(daemon: Daemon) -> dict[str, Any]:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(daemon.socket))) as client:
        document = client.get("http://localhost/openapi.json").json()
    schemas: dict[str, Any] = document["components"]["schemas"]
    return schemas


def properties(schemas: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """The fields of a schema, also of one that is made of others."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "allOf" in schema:
        return set().union(*(properties(schemas, part) for part in schema["allOf"]))
    return set(schema["properties"])


def missing(name: str, fields: Iterable[str], model: type) -> set[str]:
    renamed = RENAMED.get(name, {})
    there = {field for kind in model.__mro__ for field in getattr(kind, "__annotations__", ())}
    return {renamed.get(field, field) for field in fields} - there


def test_every_schema_has_a_model_or_needs_none(schemas: dict[str, Any]) -> None:
    assert set(schemas) == {*MODELS, *NO_MODEL}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_every_field_of_its_schema(schemas: dict[str, Any], name: str) -> None:
    assert missing(name, properties(schemas, schemas[name]), MODELS[name]) == set()


def test_limits_have_no_other_fields(schemas: dict[str, Any]) -> None:
    assert set(schemas["LimitsSpec"]["properties"]) == set(models.Limits.__annotations__)


def test_parts_of_requests_have_no_other_fields(schemas: dict[str, Any]) -> None:
    kinds: dict[str, type] = {
        "AnswerForm": AnswerForm,
        "AuditEventsSpec": models.AuditEvents,
        "ImportsSpec": models.Imports,
        "NamesSpec": models.KeptNames,
        "ApprovalSpec": models.ApprovalRules,
        "ReprSpec": ReprLimits,
    }
    for name, kind in kinds.items():
        assert set(schemas[name]["properties"]) == set(kind.__annotations__)


def test_schemas_without_a_name_have_models(schemas: dict[str, Any]) -> None:
    exception = schemas["Outcome"]["properties"]["exception"]["properties"]
    assert missing("", exception, models.ExceptionInfo) == set()
    layer = schemas["SessionInfo"]["properties"]["protection"]["items"]["properties"]
    assert missing("", layer, models.LayerReport) == set()


def test_a_field_that_a_model_lacks_is_found() -> None:
    assert missing("PoolInfo", ["ready", "new"], models.Pool) == {"new"}
    assert missing("ValueInfo", ["mime", "repr", "new"], models.Value) == {"new"}


REQUESTS: list[tuple[str, Any]] = [
    ("RunRequest", Client.run),
    ("RunRequest", Client.stream),
    ("RunRequest", AsyncClient.run),
    ("RunRequest", AsyncClient.stream),
    ("SessionSpec", Client.session),
    ("SessionSpec", AsyncClient.session),
    ("SessionPatch", Session.update),
    ("SessionPatch", AsyncSession.update),
    ("ExecuteRequest", Session.execute),
    ("ExecuteRequest", Session.stream),
    ("ExecuteRequest", AsyncSession.execute),
    ("ExecuteRequest", AsyncSession.stream),
    ("ExecuteRequest", Context.execute),
    ("ExecuteRequest", Context.stream),
    ("ExecuteRequest", AsyncContext.execute),
    ("ExecuteRequest", AsyncContext.stream),
    ("BranchRequest", Session.branch),
    ("BranchRequest", AsyncSession.branch),
    ("CheckpointRequest", Session.checkpoint),
    ("CheckpointRequest", AsyncSession.checkpoint),
    ("RollbackRequest", Session.rollback),
    ("RollbackRequest", AsyncSession.rollback),
    ("ContextSpec", Session.open_context),
    ("ContextSpec", AsyncSession.open_context),
    ("IsCompleteRequest", Session.is_complete),
    ("IsCompleteRequest", AsyncSession.is_complete),
    ("ProbeRequest", Session.complete),
    ("ProbeRequest", Session.inspect),
    ("ProbeRequest", AsyncSession.complete),
    ("ProbeRequest", AsyncSession.inspect),
    ("CommandRequest", Session.command),
    ("CommandRequest", Session.stream_command),
    ("CommandRequest", AsyncSession.command),
    ("CommandRequest", AsyncSession.stream_command),
    ("CommandRequest", Session.start),
    ("CommandRequest", AsyncSession.start),
]

POLICIES: dict[str, Any] = {
    "ExecuteRequest": models.ExecutionPolicies,
    "RunRequest": models.RunPolicies,
    "SessionSpec": models.SessionPolicies,
}

IN_BACKGROUND = {"background", "pty", "stdin_open", "survives_reset"}
CUT = {"keep", "max_output_chars"}
IN_FOREGROUND = {"answer", "background", "cancel_on_disconnect", "queued", *CUT}


@pytest.mark.parametrize(("name", "call"), REQUESTS)
def test_a_call_takes_every_field_of_its_request(
    schemas: dict[str, Any], name: str, call: Any
) -> None:
    fields = {
        field.removesuffix("_ms").removesuffix("_base64") for field in schemas[name]["properties"]
    }
    if name == "CommandRequest":
        fields -= IN_FOREGROUND if call.__name__ == "start" else IN_BACKGROUND
    if name in POLICIES:
        # Together in one parameter.
        policies = set(get_type_hints(POLICIES[name]))
        assert policies <= fields
        fields = fields - policies | {"policies"}
    # Calls are answered as a stream tells of them.
    fields -= {"wait_for_calls"}
    if call.__qualname__.partition(".")[0].endswith("Context"):
        fields -= {"context"}
    if call.__name__.startswith("stream"):
        # A stream sends all that is printed as it comes.
        fields -= CUT
    assert fields - set(inspect.signature(call).parameters) == set()


NAMES: list[tuple[str, Any]] = [
    ("RunRequest.network", names.Network),
    ("SessionSpec.network", names.Network),
    ("SessionInfo.network", names.Network),
    ("SessionSpec.checkpoint", names.CheckpointMode),
    ("FileFormat", names.Format),
    ("OutputFormat", names.AnswerFormat),
    ("Keep", names.Keep),
    ("Echo", names.Echo),
    ("Preset", names.Preset),
    ("Content", names.ContentForm),
    ("Outcome.status", names.Status),
    ("Outcome.cause", names.Cause),
    ("Outcome.state", names.Survival),
    ("PreviousEnd.cause", names.Cause),
    ("Progress", names.ExecutionState),
    ("ExecutionKind", names.ExecutionKind),
    ("SessionState", names.SessionState),
    ("SessionInfo.kernel_origin", names.KernelOrigin),
    ("ContextInfo.kernel_origin", names.KernelOrigin),
    ("PolicySource", names.PolicySource),
    ("ResetScope", names.ResetScope),
    ("FileInfo.kind", names.FileKind),
    ("Completeness", names.CodeStatus),
    ("DisplayEvent.kind", names.DisplayKind),
    ("CallEndedEvent.outcome", names.CallOutcome),
]


def literals(kind: Any) -> set[str]:
    """The strings that a type lists."""
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return {name for part in get_args(kind) for name in literals(part)}


@pytest.mark.parametrize(("where", "kind"), NAMES)
def test_types_list_the_names_of_the_document(
    schemas: dict[str, Any], where: str, kind: Any
) -> None:
    schema, _, field = where.partition(".")
    found = schemas[schema]["properties"][field] if field else schemas[schema]
    assert literals(kind) == set(found["enum"]) - {None}


@pytest.mark.parametrize(
    ("model", "field"),
    [
        (models.Outcome, "status"),
        (models.Outcome, "cause"),
        (models.Outcome, "state"),
        (models.SessionInfo, "state"),
        (models.SessionInfo, "network"),
        (models.FileEntry, "kind"),
        (events.Display, "kind"),
    ],
)
def test_answers_may_have_names_of_later_versions(model: type, field: str) -> None:
    kind = get_type_hints(model)[field]
    assert get_origin(kind) is Union
    assert str in get_args(kind)
    assert literals(kind)
