//! The JSON of the API: requests to the engine, and its responses. Doc comments of fields are the
//! descriptions in the OpenAPI document.
//!
//! Requests are partial and unchecked; the engine makes protocol types of them. Nothing here knows
//! of HTTP.

#![forbid(unsafe_code)]

mod admin;
mod answer;
mod approval;
mod assist;
mod code_policy;
mod command;
mod context;
mod cut;
pub mod duration;
mod environments;
mod event;
mod files;
mod homes;
mod image;
mod kept;
mod limits;
mod listen_addr;
mod listing;
mod mime;
mod notebook;
mod object;
mod part;
mod patch;
mod policy;
mod preview;
mod request;
mod response;
mod scalar;
mod schema;
mod scope;
mod token;
mod tool;

pub use admin::{
    AdminStatus, AdminTenant, AdminTenantList, DrainReply, DrainRequest, EnvironmentStatus,
    FailedReload, LedgerInfo, MAX_REASON_CHARS, PauseInfo, PauseReply, PauseRequest,
    TenantSourcesInfo, TokenInfo, UsageFormat, UsagePeriod, UsageQuery, UsageReport, UsageRow,
    UsageSource,
};
pub use answer::{AnswerForm, Answered, Content, OutcomeForm, OutputFormat};
pub use approval::{
    ApprovalDecision, ApprovalEgress, ApprovalExecution, ApprovalInfo, ApprovalPage, ApprovalQuery,
    ApprovalRule, ApprovalSpec, ApprovalState, AwaitingApprovalEvent, DecideRequest,
    MAX_SHOWN_BYTES, Remember,
};
pub use assist::{
    AssistReply, CompleteReply, Completeness, InspectReply, IsCompleteReply, IsCompleteRequest,
    Match, ProbeRequest,
};
pub use code_policy::{
    AuditEventsSpec, CodePolicySpec, Echo, ImportsSpec, MAX_POLICY_NAMES, NamesSpec, Preset,
    is_module_name,
};
pub use command::{
    BackgroundReply, CommandRequest, MAX_PTY_SIZE, PtySize, SignalRequest, StdinReply,
};
pub use context::{ContextInfo, ContextList, ContextSpec, MAIN_CONTEXT, ResetScope};
pub use cut::{Keep, MaxChars, TextCut};
pub use environments::{
    BuildInfo, BuildRequest, BuildState, BuiltEnvironmentInfo, BuiltEnvironmentList, CollectReply,
    OwnerQuery,
};
pub use event::{DisplayEvent, DoneEvent, OutputEvent, StartedEvent};
pub use files::{
    FileChange, FileEventInfo, FileInfo, FileList, FilePage, FilesWritten, WatchParams,
};
pub use homes::{
    HomeInfo, HomeKind, HomeList, StorageInfo, VolumeInfo, VolumeList, VolumeMount, VolumeSpec,
};
pub use image::{
    BranchReply, BranchRequest, Checkpoint, CheckpointDiff, CheckpointList, CheckpointMode,
    CheckpointRequest, DiffParams, ExportParams, ImageInfo, ImagePage, ImageableReply,
    ImportParams, MAX_BRANCHES, RollbackRequest, StoredImage, Variable,
};
pub use kept::{ExecutionInfo, ExecutionKind, ExecutionPage, ExecutionSummary, Progress};
pub use limits::{LimitsInfo, LimitsSpec};
pub use listen_addr::ListenAddr;
pub use listing::{Page, SessionFilters, SessionQuery};
pub use mime::is_text;
pub use notebook::{NotebookData, NotebookOutput, Place, data as notebook_data};
pub use object::Object;
pub use part::{Encoded, NoPart, Part};
pub use patch::{Change, SessionPatch};
pub use policy::{PolicyEntry, PolicySource, PolicyValue};
pub use preview::{PreviewReply, PreviewRequest};
pub use request::{
    ExecuteRequest, FileFormat, FileSpec, MAX_METADATA_BYTES, OutputSpec, ReprSpec, RunRequest,
    SessionSpec,
};
pub use response::{
    Capacity, ChangedFile, Display, EncodedImage, EnvironmentInfo, ExecutionUsage, HostInfo,
    InterruptReply, KeepaliveReply, KernelInfo, MemoryCapacity, MimeBundle, Outcome, OutputFile,
    PoolInfo, PreviousEnd, ResetReply, SessionInfo, SessionPage, SessionState, SessionUsage, Sizes,
    TemplateInfo, TenantInfo, TenantList, ValueInfo,
};
pub use scalar::{Cores, CoresError};
pub use scope::{Scope, Scopes, UnknownScope};
pub use token::{Token, TokenError, TokenHash};
pub use tool::{
    CallAnswer, CallEndedEvent, CallError, CallEvent, CallInfo, CallList, CallOutcome,
    ContinueRequest, JsonText, ToolSpec, WaitingReply, WaitingStatus,
};
