/** The API's calls as requests. Arguments that are not given are not sent. */

import { randomKey } from "#platform";
import type {
  AnswerForm,
  ApprovalRules,
  CheckpointMode,
  Keep,
  Limits,
  Network,
  OutputSpec,
  Policies,
  PtySize,
  ReprLimits,
  SessionState,
  VolumeMount,
} from "../documents.js";
import type { components } from "../openapi.js";
import type { CallOptions } from "./calls.js";
import { type Bytes, type InputFiles, inputFiles, sourceOf, stdinFields } from "./content.js";
import type { Tools, ToolSet } from "./tools.js";
import { filePath, get, mergePatch, path, post, type Patience, type Request, streamed } from "./request.js";

/** A program with its arguments, or a line for `/bin/sh -c`. */
export type Command = readonly string[] | { readonly shell: string };

/** What every call that runs something takes. */
export interface WorkOptions extends CallOptions {
  /** Milliseconds that the code may run, from when a kernel gets it. */
  timeoutMs?: number | undefined;
  /**
   * Whether somebody has to allow it first, such as `{ executions: "ask" }`: no less than the rule of
   * its tenant and session.
   */
  approval?: ApprovalRules | undefined;
  /** Files to write into the working directory first, by path. A string is text. */
  files?: InputFiles | undefined;
  /** Files to return, by path in the working directory. */
  outputs?: Iterable<string | OutputSpec> | undefined;
  /**
   * The most characters of each text in the outcome, 100 or more; `cuts` tells what is missing. Not for
   * streams.
   */
  maxOutputChars?: number | undefined;
  /** Which part of a longer text is kept: `head`, `tail` or `both` (the default). Not for streams. */
  keep?: Keep | undefined;
  /** How the outcome is told. */
  answer?: AnswerForm | undefined;
  /** Interrupt the code when this client disconnects; by default it runs on. */
  cancelOnDisconnect?: boolean | undefined;
  /** Another call with the same key returns the outcome of the first. */
  idempotencyKey?: string | undefined;
}

/** How an outcome is told, where it is kept. */
export interface OutcomeForm extends Pick<WorkOptions, "maxOutputChars" | "keep" | "answer"> {}

/** To be followed: a stream tells all of it. The outcome is asked for in its form afterwards. */
export function followed<T extends OutcomeForm>(options: T): T {
  return { ...options, maxOutputChars: undefined, keep: undefined, answer: undefined };
}

/** What code may call, and what Python itself holds it to. */
interface CallableTools {
  /** Policies of the language, such as `{ max_work: 1_000_000 }`; `hidden` is for sessions, `modules` and `names` for code. */
  policies?: Policies | undefined;
  /**
   * Functions of this process that the code can call: `from vivarium import tools; tools.NAME(…)`. They
   * may be async, and their arguments are untrusted.
   */
  tools?: Tools | undefined;
  /** Put the tools' names into the code's globals too. */
  toolsAsGlobals?: boolean | undefined;
  /** Names of the operator's servers whose tools the code can call: `tools.SERVER_NAME(…)`. */
  toolServers?: Iterable<string> | undefined;
}

/** What calls that run code take. */
export interface CodeOptions extends CallableTools {
  /**
   * Name of the code in tracebacks. If it is a file in the working directory, `__file__` is its
   * path, and modules beside it can be imported.
   */
  filename?: string | undefined;
  /** How far the value and displays are written out; by default as in IPython. */
  repr?: ReprLimits | undefined;
}

/** The surroundings of one call. */
interface Surroundings {
  /** Working directory, in the session's. */
  cwd?: string | undefined;
  /** Environment variables. */
  env?: Readonly<Record<string, string>> | undefined;
}

export interface ExecuteOptions extends WorkOptions, CodeOptions, Surroundings {
  /** Id of the context whose kernel runs it; `main` if not given. */
  context?: string | undefined;
  /** Create the session if it does not exist. */
  create?: boolean | undefined;
}

export interface CommandOptions extends WorkOptions, Surroundings {
  /** Standard input. */
  stdin?: string | Bytes | undefined;
  /** Wait behind the code that was sent before; by default it runs beside that. */
  queued?: boolean | undefined;
}

/** `timeoutMs` has no default: without, a background command runs until its session ends. */
export interface StartOptions extends Omit<CommandOptions, "queued" | "cancelOnDisconnect"> {
  /** Leave standard input open for `Process.write`. */
  stdinOpen?: boolean | undefined;
  /** Run it on a terminal of this size. All that it prints is then its standard output. */
  pty?: PtySize | undefined;
  /**
   * Let it go on when the session is reset. Only with the cgroup layer, without which a reset ends
   * every process.
   */
  survivesReset?: boolean | undefined;
}

/** What `Client.session` and `Client.run` take. */
interface Confinement {
  /** Name of a configured environment. */
  environment?: string | undefined;
  /** Limits; they may only be tighter than the configured ones. */
  limits?: Limits | undefined;
  /** `none`, `loopback`, or whatever else the operator allows. */
  network?: Network | undefined;
  /** Environment variables. */
  env?: Readonly<Record<string, string>> | undefined;
}

/** `filename` and `repr` are for code; `stdin` is for a command. */
export interface RunOptions extends Omit<CommandOptions, "queued">, CodeOptions, Confinement {}

/** `tools` are those of all its executions, as long as this object runs them. */
export interface SessionOptions extends CallOptions, Confinement, CallableTools {
  /** 1 to 64 of `A-Z a-z 0-9 _ -`; random if not given. */
  id?: string | undefined;
  /** Milliseconds without use after which the daemon deletes the session. */
  idleTimeoutMs?: number | undefined;
  /** When the daemon deletes the session, whatever it does. */
  deadline?: Date | undefined;
  /** Strings that `Session.info` returns. */
  metadata?: Readonly<Record<string, string>> | undefined;
  /**
   * Files that outlive the session, at `/home/sandbox`: `session` (those of earlier sessions of the
   * same id) or `tenant`, where the operator allows it.
   */
  home?: "off" | "session" | "tenant" | undefined;
  /**
   * Where a session of network `trusted` may connect to, within what its tenant may: `HOST`, `*.HOST`
   * or `HOST:PORT`.
   */
  egressAllow?: readonly string[] | undefined;
  /** What somebody has to allow first, such as `{ executions: "ask" }`: no less than the tenant's rule. */
  approval?: ApprovalRules | undefined;
  /** Volumes that it has, such as `{ name: "data", read_only: true }`. */
  volumes?: readonly VolumeMount[] | undefined;
  /**
   * Whether calls resume the session where it is suspended, as they do by default; if not,
   * `Session.resume` alone does, and other calls throw `Conflict` (`suspended`).
   */
  autoResume?: boolean | undefined;
  /**
   * Which checkpoints it has: `off` (none: `Session.checkpoint` throws `Conflict`), `named` (those that
   * `Session.checkpoint` makes) or `each` (and one after every execution, named `after-` and its
   * number); without it, those that the operator has chosen.
   */
  checkpoint?: CheckpointMode | undefined;
  /**
   * Whether code that loses its kernel has the session roll back to its last checkpoint before it is
   * answered: then `Outcome.rolled_back` is true.
   */
  autoRollback?: boolean | undefined;
  /**
   * Another call with the same key returns the session of the first. With a key, a call whose
   * connection broke is retried.
   */
  idempotencyKey?: string | undefined;
}

/** What to change of a session; what is not given stays. */
export interface SessionChanges extends CallOptions {
  /** Keys to set, or to remove where the value is null. Null removes all. */
  metadata?: Readonly<Record<string, string | null>> | null | undefined;
  /** Milliseconds without use after which the daemon deletes the session; null: as configured. */
  idleTimeoutMs?: number | null | undefined;
  /** When the daemon deletes the session, whatever it does; null: as configured, if at all. */
  deadline?: Date | null | undefined;
  /**
   * Limits to lower: `max_memory_mb`, `max_procs`, `cpu_cores`, `max_output_bytes` and
   * `max_result_bytes`.
   */
  limits?: Limits | undefined;
}

/** Which sessions to list: those that have all of what is given. */
export interface SessionFilters extends CallOptions {
  state?: SessionState | undefined;
  metadata?: Readonly<Record<string, string>> | undefined;
}

/** PATCH /v1/sessions/{id} */
export function updateSession(sessionId: string, changes: SessionChanges): Request {
  const { metadata, limits, idleTimeoutMs, deadline } = changes;
  const idle_timeout_ms = idleTimeoutMs === null ? null : milliseconds(idleTimeoutMs);
  return mergePatch(path("sessions", sessionId), json({ metadata, limits, idle_timeout_ms, deadline }));
}

/** GET /v1/sessions */
export function sessions(after: string | undefined, filters: SessionFilters): Request {
  const metadata = Object.entries(filters.metadata ?? {});
  const keys = Object.fromEntries(metadata.map(([key, value]) => [`metadata[${key}]`, value]));
  return get(path("sessions"), { after, state: filters.state, ...keys });
}

/** POST /v1/sessions */
export function createSession(options: SessionOptions, tools: ToolSet): Request {
  const { id, environment, limits, network, env, metadata, deadline, idempotencyKey: key } = options;
  const idle_timeout_ms = milliseconds(options.idleTimeoutMs);
  const confinement = { environment, limits, network, egress_allow: options.egressAllow, env };
  const { approval, home, volumes, autoResume: auto_resume } = options;
  const { checkpoint, autoRollback: auto_rollback } = options;
  const life = { deadline, idle_timeout_ms, auto_resume, checkpoint, auto_rollback };
  const called = toolFields(options, tools);
  const fields = { id, ...confinement, approval, metadata, ...life, home, volumes, ...called };
  // No key but the caller's: with one that nobody knows the daemon would keep a session that
  // nobody knows. A kernel is started meanwhile, which takes as long as the daemon allows.
  return post(path("sessions"), json(fields), {
    headers: key === undefined ? {} : { "Idempotency-Key": key },
    idempotent: key !== undefined,
    patience: "work",
  });
}

/** POST /v1/environments */
export function buildEnvironment(
  name: string,
  options: {
    requirements?: string | undefined;
    pyproject?: string | undefined;
    lock?: string | undefined;
    base?: string | undefined;
  },
): Request {
  const { requirements, pyproject, lock, base } = options;
  const fields = json({ name, requirements, pyproject, lock, base });
  // Sent again it would find its own build running.
  return post(path("environments"), fields, { idempotent: false, patience: "call" });
}

/** POST /v1/volumes */
export function createVolume(name: string): Request {
  // Sent again it would find its name taken.
  return post(path("volumes"), json({ name }), { idempotent: false, patience: "call" });
}

/** POST /v1/approvals/{id} */
export function decide(id: string, request: components["schemas"]["DecideRequest"]): Request {
  // Sent again it would find the call decided.
  return post(path("approvals", id), json(request), { idempotent: false, patience: "call" });
}

/** POST /v1/sessions/{id}/execute */
export async function execute(
  sessionId: string,
  code: string,
  options: ExecuteOptions,
  tools: ToolSet,
): Promise<Request> {
  const where = path("sessions", sessionId, "execute") + (options.create ? "?create=true" : "");
  const { context, filename, cwd, env, repr } = options;
  const own = { code, context, filename, cwd, env, repr, ...toolFields(options, tools) };
  return work(where, { ...own, ...(await common(options)) }, options);
}

/** POST /v1/sessions/{id}/commands */
export async function command(
  sessionId: string,
  command: Command,
  options: CommandOptions,
): Promise<Request> {
  const { env, queued } = options;
  const own = { env, queued: queued || undefined };
  const fields = { ...commandFields(command, options), ...own, ...(await common(options)) };
  return work(path("sessions", sessionId, "commands"), fields, options);
}

/** POST /v1/sessions/{id}/commands, in the background */
export async function start(
  sessionId: string,
  command: Command,
  options: StartOptions,
): Promise<Request> {
  const { env, stdinOpen, pty, survivesReset } = options;
  const survival = { background: true, survives_reset: survivesReset || undefined };
  const own = { env, stdin_open: stdinOpen || undefined, pty, ...survival };
  const fields = { ...commandFields(command, options), ...own, ...(await common(options)) };
  return work(path("sessions", sessionId, "commands"), fields, options);
}

/** POST /v1/sessions/{id}/executions/{execution_id}/calls/{call_id} */
export function answerCall(
  sessionId: string,
  executionId: string,
  callId: string,
  answer: string,
): Request {
  const where = path("sessions", sessionId, "executions", executionId, "calls", callId);
  // The same answer again changes nothing.
  return post(where, sourceOf(answer), { idempotent: true, patience: "call" });
}

/** POST /v1/sessions/{id}/executions/{execution_id}/stdin */
export function writeStdin(
  sessionId: string,
  executionId: string,
  data: string | Bytes,
  close: boolean,
): Request {
  const content = sourceOf(data);
  const where = path("sessions", sessionId, "executions", executionId, "stdin");
  // Answered when the command has read enough, which takes as long as the daemon allows. Sent
  // again, it would be read twice.
  return post(where + (close ? "?close=true" : ""), content, {
    headers: { "Content-Type": "application/octet-stream" },
    idempotent: content.sizeBytes === 0,
    patience: "work",
  });
}

/** POST /v1/sessions/{id}/executions/{execution_id}/resize */
export function resize(sessionId: string, executionId: string, size: PtySize): Request {
  const options = { idempotent: true, patience: "call" as const };
  const where = path("sessions", sessionId, "executions", executionId, "resize");
  return post(where, json(size), options);
}

/** POST /v1/sessions/{id}/executions/{execution_id}/signal */
export function signal(sessionId: string, executionId: string, name: string): Request {
  const options = { idempotent: false, patience: "call" as const };
  const where = path("sessions", sessionId, "executions", executionId, "signal");
  return post(where, json({ signal: name }), options);
}

/** POST /v1/run */
export async function run(
  program: string | Command,
  options: RunOptions,
  tools: ToolSet,
): Promise<Request> {
  const { filename, repr, limits, network, env, environment } = options;
  const what =
    typeof program === "string"
      ? { code: program, ...stdinFields(options.stdin), cwd: options.cwd }
      : commandFields(program, options);
  const confinement = { limits, network, env, environment };
  const own = { ...what, filename, repr, ...confinement, ...toolFields(options, tools) };
  const fields = { ...own, ...(await common(options)) };
  return work(path("run"), fields, options);
}

/** GET /v1/sessions/{id}/executions/{execution_id} */
export function execution(
  sessionId: string,
  executionId: string,
  form: OutcomeForm = {},
): Request {
  const query = { max_output_chars: form.maxOutputChars, keep: form.keep, ...form.answer };
  return get(path("sessions", sessionId, "executions", executionId), query);
}

/** GET /v1/sessions/{id}/executions/{execution_id}/outputs/{part} */
export function output(
  sessionId: string,
  executionId: string,
  part: string,
  mimeType?: string,
): Request {
  const parts = part.split("/");
  const where = path("sessions", sessionId, "executions", executionId, "outputs", ...parts);
  return get(where, { mime_type: mimeType });
}

/** As `execution`, answered by the events after number `after`, or by all that are kept. */
export function events(
  sessionId: string,
  executionId: string,
  after: number | undefined,
): Request {
  const headers: Record<string, string> =
    after === undefined ? {} : { "Last-Event-ID": `${after}` };
  return streamed(execution(sessionId, executionId), headers);
}

/** POST /v1/sessions/{id}/complete and others that ask about code. */
export function question(sessionId: string, call: string, fields: object): Request {
  const options = { idempotent: true, patience: "call" as const };
  return post(path("sessions", sessionId, call), json(fields), options);
}

/** POST /v1/sessions/{id}/interrupt, /reset, /keepalive, /suspend and /resume */
export function control(
  sessionId: string,
  call: "interrupt" | "reset" | "keepalive" | "suspend" | "resume",
): Request {
  // A second one of the others could hit what came after the first.
  const idempotent = call === "keepalive" || call === "resume";
  const options = { idempotent, patience: "work" as const };
  return post(path("sessions", sessionId, call), null, options);
}

/** POST /v1/sessions/{id}/contexts */
export function openContext(sessionId: string, id: string | undefined): Request {
  // A kernel is started meanwhile. Sent again it would be another context, or find its id taken.
  const options = { idempotent: false, patience: "work" as const };
  return post(path("sessions", sessionId, "contexts"), json({ id }), options);
}

/** POST /v1/sessions/{id}/contexts/{context}/interrupt and /reset */
export function controlContext(
  sessionId: string,
  context: string,
  call: "interrupt" | "reset",
): Request {
  // A second one could hit what came after the first.
  const options = { idempotent: false, patience: "work" as const };
  return post(path("sessions", sessionId, "contexts", context, call), null, options);
}

/** POST /v1/sessions/{id}/previews */
export function preview(sessionId: string, port: number): Request {
  const options = { idempotent: true, patience: "work" as const };
  return post(path("sessions", sessionId, "previews"), json({ port }), options);
}

/** GET /v1/sessions/{id}/files/{path} */
export function getFile(
  sessionId: string,
  name: string,
  offset = 0,
  length: number | undefined = undefined,
): Request {
  const isPart = (value: number, least: number) => Number.isSafeInteger(value) && value >= least;
  if (!isPart(offset, 0) || (length !== undefined && !isPart(length, 1))) {
    throw new RangeError("offset is a whole number, at least 0, and length at least 1");
  }
  const request = get(filePath(sessionId, name));
  if (offset === 0 && length === undefined) {
    return request;
  }
  const last = length === undefined ? "" : offset + length - 1;
  return { ...request, headers: { ...request.headers, Range: `bytes=${offset}-${last}` } };
}

/** Returns a request that runs something, with a key by which the daemon recognises a retry. */
function work(where: string, fields: object, options: WorkOptions): Request {
  const headers = { "Idempotency-Key": options.idempotencyKey ?? randomKey() };
  const patience: Patience = "work";
  return post(where, json(fields), { headers, idempotent: true, patience });
}

async function common(options: WorkOptions): Promise<object> {
  if (typeof options.outputs === "string") {
    throw new TypeError("outputs is a list of names");
  }
  const files = await inputFiles(options.files);
  const outputs = Array.from(options.outputs ?? [], (one) =>
    typeof one === "string" ? { name: one } : one,
  );
  return {
    approval: options.approval,
    timeout_ms: milliseconds(options.timeoutMs),
    files: files.length ? files : undefined,
    outputs: outputs.length ? outputs : undefined,
    max_output_chars: options.maxOutputChars,
    keep: options.keep,
    answer: options.answer,
    cancel_on_disconnect: options.cancelOnDisconnect || undefined,
  };
}

function toolFields(options: CallableTools, tools: ToolSet): object {
  if (typeof options.toolServers === "string") {
    throw new TypeError("toolServers is a list of names");
  }
  return {
    ...options.policies,
    tools: tools.declared(),
    tools_as_globals: options.toolsAsGlobals || undefined,
    tool_servers: options.toolServers && Array.from(options.toolServers),
  };
}

function commandFields(command: Command, options: CommandOptions): object {
  if (typeof command === "string") {
    throw new TypeError("a command is a list; for a line of shell, give { shell }");
  }
  const what = "shell" in command ? { shell: command.shell } : { argv: command };
  return { ...what, ...stdinFields(options.stdin), cwd: options.cwd };
}

/** JSON knows no Infinity: it would become null, which is no limit. */
function milliseconds(time: number | undefined): number | undefined {
  if (time !== undefined && !Number.isFinite(time)) {
    throw new RangeError("a time is a finite number of milliseconds");
  }
  return time === undefined ? undefined : Math.ceil(time);
}

function json(fields: object) {
  return sourceOf(JSON.stringify(fields));
}
