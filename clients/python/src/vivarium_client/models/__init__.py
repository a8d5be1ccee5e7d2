"""The daemon's responses as frozen dataclasses. Units are in the names."""

from .home import HomeInfo, Storage, VolumeInfo, VolumeMount
from .host import Capacity, Environment, HostInfo, MemoryCapacity, Pool, Template
from .media import ChangedFile, DisplayData, Image, OutputFile, Representations, Value
from .names import Cause, HomeKind, Network, Status
from .outcome import (
    ExceptionInfo,
    Execution,
    ExecutionSummary,
    Kernel,
    Outcome,
    PreviousEnd,
    TextCut,
    Usage,
)
from .session import (
    ContextInfo,
    Interrupt,
    LayerReport,
    Limit,
    Limits,
    Preview,
    Reset,
    SessionInfo,
    SessionUsage,
)
from .workspace import Completeness, Completion, Completions, FileEntry, FileEvent, Inspection

__all__ = [
    "Capacity",
    "Cause",
    "ChangedFile",
    "Completeness",
    "Completion",
    "Completions",
    "ContextInfo",
    "DisplayData",
    "Environment",
    "ExceptionInfo",
    "Execution",
    "ExecutionSummary",
    "FileEntry",
    "FileEvent",
    "HomeInfo",
    "HomeKind",
    "HostInfo",
    "Image",
    "Inspection",
    "Interrupt",
    "Kernel",
    "LayerReport",
    "Limit",
    "Limits",
    "MemoryCapacity",
    "Network",
    "Outcome",
    "OutputFile",
    "Pool",
    "Preview",
    "PreviousEnd",
    "Representations",
    "Reset",
    "SessionInfo",
    "SessionUsage",
    "Status",
    "Storage",
    "Template",
    "TextCut",
    "Usage",
    "Value",
    "VolumeInfo",
    "VolumeMount",
]
