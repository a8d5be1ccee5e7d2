"""Client of Vivarium, which runs untrusted Python in confined sessions.

    from vivarium_client import Client

    with Client() as client, client.session() as session:
        session.execute("x = 6")
        print(session.execute("x * 7").value)

`Client` blocks; `AsyncClient` has the same calls for asyncio. Whatever code prints, returns or
writes is untrusted data, which this package never runs.
"""

from . import errors, events, models
from ._asyncio.admin import AsyncAdmin
from ._asyncio.approvals import AsyncApprovals
from ._asyncio.client import AsyncClient
from ._asyncio.context import AsyncContext
from ._asyncio.environments import AsyncEnvironments
from ._asyncio.files import AsyncFiles, AsyncRemoteFile
from ._asyncio.images import AsyncImages
from ._asyncio.process import AsyncProcess
from ._asyncio.session import AsyncSession
from ._asyncio.stored import AsyncHomes, AsyncVolumes
from ._asyncio.stream import AsyncEventStream
from ._core.requests import AnswerForm, OutputSpec, ReprLimits
from ._core.tools import Tool
from ._sync.admin import Admin
from ._sync.approvals import Approvals
from ._sync.client import Client
from ._sync.context import Context
from ._sync.environments import Environments
from ._sync.files import Files, RemoteFile
from ._sync.images import Images
from ._sync.process import Process
from ._sync.session import Session
from ._sync.stored import Homes, Volumes
from ._sync.stream import EventStream
from ._version import __version__
from .errors import (
    ApiError,
    CodeError,
    CommandFailed,
    Conflict,
    Draining,
    EventsGone,
    ExecutionError,
    Forbidden,
    Interrupted,
    InvalidRequest,
    Killed,
    NotFound,
    OutputFileError,
    QuotaExceeded,
    Rejected,
    ServerError,
    TimedOut,
    ToolError,
    TransportError,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
    VivariumError,
)
from .events import (
    AwaitingApproval,
    Call,
    CallEnded,
    Display,
    Done,
    ErrorEvent,
    Event,
    Result,
    Started,
    Stderr,
    Stdout,
)
from .models import (
    Approval,
    ApprovalRules,
    Checkpoint,
    CheckpointDiff,
    CodePolicies,
    ContextInfo,
    Execution,
    ExecutionPolicies,
    ExecutionSummary,
    FileEntry,
    Image,
    Limits,
    Outcome,
    OutputFile,
    RunPolicies,
    SessionInfo,
    SessionPolicies,
    StoredImage,
    Value,
)

__all__ = [
    "Admin",
    "AnswerForm",
    "ApiError",
    "Approval",
    "ApprovalRules",
    "Approvals",
    "AsyncAdmin",
    "AsyncApprovals",
    "AsyncClient",
    "AsyncContext",
    "AsyncEnvironments",
    "AsyncEventStream",
    "AsyncFiles",
    "AsyncHomes",
    "AsyncImages",
    "AsyncProcess",
    "AsyncRemoteFile",
    "AsyncSession",
    "AsyncVolumes",
    "AwaitingApproval",
    "Call",
    "CallEnded",
    "Checkpoint",
    "CheckpointDiff",
    "Client",
    "CodeError",
    "CodePolicies",
    "CommandFailed",
    "Conflict",
    "Context",
    "ContextInfo",
    "Display",
    "Done",
    "Draining",
    "Environments",
    "ErrorEvent",
    "Event",
    "EventStream",
    "EventsGone",
    "Execution",
    "ExecutionError",
    "ExecutionPolicies",
    "ExecutionSummary",
    "FileEntry",
    "Files",
    "Forbidden",
    "Homes",
    "Image",
    "Images",
    "Interrupted",
    "InvalidRequest",
    "Killed",
    "Limits",
    "NotFound",
    "Outcome",
    "OutputFile",
    "OutputFileError",
    "OutputSpec",
    "Process",
    "QuotaExceeded",
    "Rejected",
    "RemoteFile",
    "ReprLimits",
    "Result",
    "RunPolicies",
    "ServerError",
    "Session",
    "SessionInfo",
    "SessionPolicies",
    "Started",
    "Stderr",
    "Stdout",
    "StoredImage",
    "TimedOut",
    "Tool",
    "ToolError",
    "TransportError",
    "Unauthenticated",
    "Unavailable",
    "UnexpectedAnswer",
    "Value",
    "VivariumError",
    "Volumes",
    "__version__",
    "errors",
    "events",
    "models",
]
