/**
 * Client of Vivarium, which runs untrusted Python in confined sessions.
 *
 * ```ts
 * import { Client } from "vivarium-client";
 *
 * await using session = await new Client().session();
 * await session.execute("x = 6");
 * console.log((await session.execute("x * 7")).value?.repr);
 * ```
 *
 * Whatever code prints, returns or writes is untrusted data, which this package never runs.
 */

export { Approvals } from "./approvals.js";
export { Client, type ClientOptions } from "./client.js";
export { Context, type ContextCursor, type ContextExecute } from "./context.js";
export { decodeBase64 } from "./core/base64.js";
export type { CallOptions } from "./core/calls.js";
export type { Bytes, Content, InputFiles } from "./core/content.js";
export type {
  CodeOptions,
  Command,
  CommandOptions,
  ExecuteOptions,
  RunOptions,
  SessionChanges,
  SessionFilters,
  SessionOptions,
  StartOptions,
  WorkOptions,
} from "./core/requests.js";
export type { Tool, ToolFunction, Tools } from "./core/tools.js";
export type * from "./documents.js";
export * from "./errors.js";
export type * from "./events.js";
export { Files, type PartOptions, RemoteFile } from "./files.js";
export { type ExportOptions, Images } from "./images.js";
export type { components, operations, paths } from "./openapi.js";
export { type Execution, Outcome } from "./outcome.js";
export { Process } from "./process.js";
export { type CursorOptions, type QuestionOptions, Session } from "./session.js";
export { Environments } from "./environments.js";
export type { BuildOptions } from "./environments.js";
export { Homes, Volumes } from "./stored.js";
export { EventStream } from "./stream.js";
