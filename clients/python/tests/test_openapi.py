"""The models and events have every field that the daemon's OpenAPI document describes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from daemon import Daemon
from vivarium_client import events, models

MODELS: dict[str, type] = {
    "Capacity": models.Capacity,
    "ChangedFile": models.ChangedFile,
    "CompleteReply": models.Completions,
    "Display": models.DisplayData,
    "DisplayEvent": events.Display,
    "DoneEvent": models.Outcome,
    "EncodedImage": models.Image,
    "EnvironmentInfo": models.Environment,
    "ExecutionInfo": models.Execution,
    "ExecutionUsage": models.Usage,
    "FileInfo": models.FileEntry,
    "HostInfo": models.HostInfo,
    "InspectReply": models.Inspection,
    "InterruptReply": models.Interrupt,
    "IsCompleteReply": models.Completeness,
    "KernelInfo": models.Kernel,
    "LimitsInfo": models.Limits,
    "LimitsSpec": models.Limits,
    "Match": models.Completion,
    "MemoryCapacity": models.MemoryCapacity,
    "Outcome": models.Outcome,
    "OutputEvent": events.Stdout,
    "OutputFile": models.OutputFile,
    "PoolInfo": models.Pool,
    "PreviousEnd": models.PreviousEnd,
    "SessionInfo": models.SessionInfo,
    "SessionUsage": models.SessionUsage,
    "StartedEvent": events.Started,
    "TemplateInfo": models.Template,
    "ValueInfo": models.Value,
}

NO_MODEL = {
    # Requests: the calls' parameters.
    *("CommandRequest", "ExecuteRequest", "FileSpec", "IsCompleteRequest", "OutputSpec"),
    *("ProbeRequest", "RunRequest", "SessionSpec"),
    # Lists of models, a map, and strings.
    *("BTreeMap", "Completeness", "FileFormat", "FileList", "Progress"),
    *("SessionPage", "SessionState"),
    # Errors, and replies without anything new.
    *("FilesWritten", "KeepaliveReply", "Problem", "ResetReply"),
    # For operators.
    *("Health", "TenantInfo", "TenantList"),
}

RENAMED = {
    "DisplayEvent": {"mime": "content"},
    "Outcome": {"result": "value"},
    # The session that was interrupted is the caller's.
    "InterruptReply": {"session_id": "execution_id"},
    "OutputFile": {"text": "content", "data": "content"},
}


@pytest.fixture(scope="module")
def schemas(daemon: Daemon) -> dict[str, Any]:
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(daemon.socket))) as client:
        document = client.get("http://localhost/openapi.json").json()
    schemas: dict[str, Any] = document["components"]["schemas"]
    return schemas


def missing(name: str, fields: Iterable[str], model: type) -> set[str]:
    renamed = RENAMED.get(name, {})
    there = {field for kind in model.__mro__ for field in getattr(kind, "__annotations__", ())}
    return {renamed.get(field, field) for field in fields} - there


def test_every_schema_has_a_model_or_needs_none(schemas: dict[str, Any]) -> None:
    assert set(schemas) == {*MODELS, *NO_MODEL}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_every_field_of_its_schema(schemas: dict[str, Any], name: str) -> None:
    assert missing(name, schemas[name]["properties"], MODELS[name]) == set()


def test_limits_have_no_other_fields(schemas: dict[str, Any]) -> None:
    assert set(schemas["LimitsSpec"]["properties"]) == set(models.Limits.__annotations__)


def test_schemas_without_a_name_have_models(schemas: dict[str, Any]) -> None:
    exception = schemas["Outcome"]["properties"]["exception"]["properties"]
    assert missing("", exception, models.ExceptionInfo) == set()
    layer = schemas["SessionInfo"]["properties"]["protection"]["items"]["properties"]
    assert missing("", layer, models.LayerReport) == set()


def test_a_field_that_a_model_lacks_is_found() -> None:
    assert missing("PoolInfo", ["ready", "new"], models.Pool) == {"new"}
    assert missing("ValueInfo", ["mime", "repr", "new"], models.Value) == {"new"}
