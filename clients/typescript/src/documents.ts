/**
 * The API's documents, under the names that this package gives them. Their fields are called as in
 * the HTTP API, and are typed by its OpenAPI document. A later daemon may send more fields, and
 * more values where a field has a few: ignore what you do not know.
 */

import type { components } from "./openapi.js";

type Schemas = components["schemas"];

/** What a host offers. */
export type HostInfo = Schemas["HostInfo"];
/** A session: state, protection, limits, usage. */
export type SessionInfo = Schemas["SessionInfo"];
/** What there is of a suspended session on disk. */
export type SessionImage = Schemas["ImageInfo"];
/** The image of a suspended session, by itself. */
export type StoredImage = Schemas["StoredImage"];
/** Whether a session can be suspended now, and what is in the way. */
export type Imageable = Schemas["ImageableReply"];
/** A state of a session that it can be rolled back to. */
export type Checkpoint = Schemas["Checkpoint"];
/**
 * Which variables are different at a checkpoint from those of another, `from`. Their names and types are
 * untrusted text.
 */
export type CheckpointDiff = Schemas["CheckpointDiff"];
/** A variable of a session, by name and type. */
export type Variable = Schemas["Variable"];
/** A call that waits until somebody decides, or what became of it. Its code is untrusted text. */
export type ApprovalInfo = Schemas["ApprovalInfo"];
/** A home: files that outlive the sessions that have it. */
export type HomeInfo = Schemas["HomeInfo"];
/** A volume: files that sessions share. */
export type VolumeInfo = Schemas["VolumeInfo"];
/** A volume that a session has. */
export type VolumeMount = Schemas["VolumeMount"];
/** The last build of an environment. */
export type BuildInfo = Schemas["BuildInfo"];
/** An environment that was built. */
export type BuiltEnvironment = Schemas["BuiltEnvironmentInfo"];
/** What somebody has to allow first. A request may only tighten the rules that hold. */
export type ApprovalRules = Schemas["ApprovalSpec"];
/** Limits of a session. A request may only tighten the configured ones. */
export type Limits = Schemas["LimitsSpec"];
/** The network that code finds. */
export type Network = NonNullable<Schemas["SessionSpec"]["network"]>;
/** Which checkpoints a session has. */
export type CheckpointMode = NonNullable<Schemas["SessionSpec"]["checkpoint"]>;
/** How far an execution has come, and its outcome once it is over. */
export type ExecutionInfo = Schemas["ExecutionInfo"];
/** An execution in a list. */
export type ExecutionSummary = Schemas["ExecutionSummary"];
/** What a session is doing. */
export type SessionState = Schemas["SessionState"];
/** The outcome of an execution, as the API sends it. */
export type OutcomeDocument = Schemas["Outcome"];
/** How far the repr of a value is written out. */
export type ReprLimits = Schemas["ReprSpec"];
/**
 * Policies of the language: what Python itself holds code to. They only tighten what stands above them, and but for
 * `hidden` they are no wall.
 */
export type Policies = Pick<
  Schemas["ExecuteRequest"],
  "policy" | "max_work" | "imports" | "audit_events" | "echo" | "prints" | "modules" | "names"
> &
  Pick<Schemas["SessionSpec"], "hidden">;
/** How an answer tells an outcome. */
export type AnswerForm = Schemas["AnswerForm"];
/** Which part of a text longer than `maxOutputChars` is kept. */
export type Keep = Schemas["Keep"];
/** A text that `maxOutputChars` has cut. */
export type TextCut = Schemas["TextCut"];
/** An output of a notebook's cell (nbformat 4.5). */
export type NotebookOutput = Schemas["NotebookOutput"];
/** An uncaught exception. */
export type ExceptionInfo = NonNullable<OutcomeDocument["exception"]>;
/** The value of a final expression. */
export type Value = Schemas["ValueInfo"];
/** An object passed to `display()`. */
export type DisplayData = Schemas["Display"];
/** An image, such as a figure: `decodeBase64(image.data)` has its bytes. */
export type Image = Schemas["EncodedImage"];
/** The size of a terminal, in characters. */
export type PtySize = Schemas["PtySize"];
/** A file to return. */
export type OutputSpec = Schemas["OutputSpec"];
/** A file that was requested in `outputs`. */
export type OutputFile = Schemas["OutputFile"];
/** A file of the working directory, or a directory, or a link. */
export type FileInfo = Schemas["FileInfo"];
/** A change of a file, directory or link. */
export type FileChange = Partial<Schemas["FileChange"]>;
/**
 * A change of a file: `ready` first (changes from then on come), then `created`, `modified`, `deleted`
 * and `moved`, and `overflow` when changes were missed: look again.
 */
export type FileEvent = Schemas["FileEventInfo"] & {
  type: "ready" | "created" | "modified" | "deleted" | "moved" | "overflow";
};
/** What an upload has written. */
export type FilesWritten = Schemas["FilesWritten"];
/** Completions at a cursor. */
export type Completions = Schemas["CompleteReply"];
/** A description of the name at a cursor. */
export type Inspection = Schemas["InspectReply"];
/** Whether code can be executed, or needs another line. */
export type Completeness = Schemas["IsCompleteReply"];
/** What a tenant uses. */
export type TenantInfo = Schemas["TenantInfo"];
/** Whether an interrupt found running code. */
export type InterruptReply = Schemas["InterruptReply"];
/** A context of a session. */
export type ContextInfo = Schemas["ContextInfo"];
/** Whose kernel a reset replaced, the execution that it ended, and how much it has ended. */
export type ResetReply = Schemas["ResetReply"];
/** When the idle timeout expires. */
export type KeepaliveReply = Schemas["KeepaliveReply"];
/** Where a browser sees a server in a session. */
export type PreviewReply = Schemas["PreviewReply"];
