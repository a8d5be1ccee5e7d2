"""Lists, most of them in pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Optional, TypeVar

from ..models import (
    AdminTenant,
    Approval,
    BuiltEnvironment,
    Checkpoint,
    ContextInfo,
    ExecutionSummary,
    FileEntry,
    HomeInfo,
    SessionInfo,
    StoredImage,
    UsageRow,
    VolumeInfo,
)
from .reading import Reader

T = TypeVar("T")


@dataclass(frozen=True)
class Page(Generic[T]):
    entries: list[T]
    next: Optional[str]
    """The `after` of the next page; None on the last."""


def session_page(reader: Reader) -> Page[SessionInfo]:
    entries = [SessionInfo._read(session) for session in reader.objects("sessions")]
    return Page(entries, reader.optional_text("next"))


def execution_page(reader: Reader) -> Page[ExecutionSummary]:
    entries = [ExecutionSummary._read(one) for one in reader.objects("executions")]
    return Page(entries, reader.optional_text("next"))


def admin_tenants(reader: Reader) -> list[AdminTenant]:
    return [AdminTenant._read(tenant) for tenant in reader.objects("tenants")]


def usage_rows(reader: Reader) -> list[UsageRow]:
    return [UsageRow._read(row) for row in reader.objects("rows")]


def approval_page(reader: Reader) -> Page[Approval]:
    entries = [Approval._read(one) for one in reader.objects("approvals")]
    return Page(entries, reader.optional_text("next"))


def context_list(reader: Reader) -> list[ContextInfo]:
    return [ContextInfo._read(context) for context in reader.objects("contexts")]


def checkpoint_list(reader: Reader) -> list[Checkpoint]:
    return [Checkpoint._read(checkpoint) for checkpoint in reader.objects("checkpoints")]


def image_page(reader: Reader) -> Page[StoredImage]:
    entries = [StoredImage._read(image) for image in reader.objects("images")]
    return Page(entries, reader.optional_text("next"))


def home_list(reader: Reader) -> list[HomeInfo]:
    return [HomeInfo._read(home) for home in reader.objects("homes")]


def volume_list(reader: Reader) -> list[VolumeInfo]:
    return [VolumeInfo._read(volume) for volume in reader.objects("volumes")]


def environment_list(reader: Reader) -> list[BuiltEnvironment]:
    return [BuiltEnvironment._read(one) for one in reader.objects("environments")]


def file_page(reader: Reader) -> Page[FileEntry]:
    entries = [FileEntry._read(entry) for entry in reader.objects("entries")]
    return Page(entries, reader.optional_text("next"))
