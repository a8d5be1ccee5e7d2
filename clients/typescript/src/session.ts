/** A session: a live Python, its files, and what runs beside it. */

/// <reference lib="esnext.disposable" preserve="true" />

import type { Calls, CallOptions } from "./core/calls.js";
import { ToolSet } from "./core/tools.js";
import { Context } from "./context.js";
import * as images from "./core/images.js";
import { array, type Fields, string } from "./core/json.js";
import { get, path, remove, streamed } from "./core/request.js";
import * as requests from "./core/requests.js";
import type {
  Command,
  CommandOptions,
  ExecuteOptions,
  OutcomeForm,
  SessionChanges,
  StartOptions,
} from "./core/requests.js";
import type {
  Checkpoint,
  CheckpointDiff,
  Completeness,
  Completions,
  ContextInfo,
  ExecutionSummary,
  Imageable,
  Inspection,
  InterruptReply,
  KeepaliveReply,
  PreviewReply,
  ResetReply,
  SessionInfo,
} from "./documents.js";
import { NotFound } from "./errors.js";
import { Files } from "./files.js";
import { type Execution, Outcome } from "./outcome.js";
import { executionOf, Process } from "./process.js";
import { EventStream } from "./stream.js";

/**
 * The outcome of an execution that was followed, in the form that was asked for: a stream tells all
 * that was printed.
 *
 * @internal
 */
export async function inForm(
  calls: Calls,
  outcome: Outcome,
  options: CallOptions & OutcomeForm,
): Promise<Outcome> {
  const { maxOutputChars, keep, answer } = options;
  if (maxOutputChars === undefined && keep === undefined && answer === undefined) {
    return outcome;
  }
  const request = requests.execution(outcome.session_id, outcome.execution_id, options);
  return executionOf(await calls.fetch(request, options)).outcome ?? outcome;
}

export interface QuestionOptions extends CallOptions {
  /** Id of the context whose kernel is asked; `main` if not given. */
  context?: string | undefined;
}

export interface CursorOptions extends QuestionOptions {
  /** Where in `code`, as its string is indexed; the end if not given. */
  cursor?: number | undefined;
}

/**
 * A live kernel with a working directory. Variables, imports and files survive from one call to
 * the next. Get a session from `Client.session` or `Client.attach`.
 */
export class Session {
  /** The working directory. */
  readonly files: Files;
  readonly #calls: Calls;
  readonly #deletesItself: boolean;
  readonly #tools: ToolSet | undefined;

  /** @internal */
  constructor(
    calls: Calls,
    readonly id: string,
    deletesItself: boolean,
    tools?: ToolSet,
  ) {
    if (!id) {
      throw new TypeError("a session has an id");
    }
    this.files = new Files(calls, id);
    this.#calls = calls;
    this.#deletesItself = deletesItself;
    this.#tools = tools;
  }

  /**
   * Runs code and waits for its outcome, whose `value` is that of a final expression. An exception
   * of the code is part of the outcome: see `Outcome.raiseForStatus`.
   */
  async execute(code: string, options: ExecuteOptions = {}): Promise<Outcome> {
    const tools = new ToolSet(options.tools, this.#tools);
    if (!tools.isEmpty) {
      const followed = this.#stream(code, requests.followed(options), tools);
      return inForm(this.#calls, await followed.wait(), options);
    }
    const request = await requests.execute(this.id, code, options, tools);
    return new Outcome(await this.#calls.fetch(request, options));
  }

  /** Runs like `execute`, and yields the events as they happen. */
  stream(code: string, options: ExecuteOptions = {}): EventStream {
    return this.#stream(code, options, new ToolSet(options.tools, this.#tools));
  }

  #stream(code: string, options: ExecuteOptions, tools: ToolSet): EventStream {
    const { id } = this;
    const request = async () => streamed(await requests.execute(id, code, options, tools));
    return new EventStream(this.#calls, request, options.signal, undefined, tools);
  }

  /** Runs a program or a line of shell beside the kernel, and waits for its outcome. */
  async command(command: Command, options: CommandOptions = {}): Promise<Outcome> {
    const request = await requests.command(this.id, command, options);
    return new Outcome(await this.#calls.fetch(request, options));
  }

  /** Runs like `command`, and yields the events as they happen. */
  streamCommand(command: Command, options: CommandOptions = {}): EventStream {
    const request = async () => streamed(await requests.command(this.id, command, options));
    return new EventStream(this.#calls, request, options.signal);
  }

  /**
   * Starts a program or a line of shell in the background, and returns it at once. It runs until it
   * ends, `timeoutMs`, a reset or the end of the session. Throws `QuotaExceeded` if as many commands run in the session as may.
   */
  async start(command: Command, options: StartOptions = {}): Promise<Process> {
    const request = await requests.start(this.id, command, options);
    const reply = await this.#calls.fetch(request, options);
    return this.process(string(reply, "execution_id", "a background command"));
  }

  /** Returns a command that was started before, without a request. */
  process(executionId: string): Process {
    return new Process(this.#calls, this.id, executionId);
  }

  /** Returns the state of an execution. Throws `NotFound` if the daemon no longer keeps it. */
  async execution(
    executionId: string,
    options: CallOptions & OutcomeForm = {},
  ): Promise<Execution> {
    const request = requests.execution(this.id, executionId, options);
    return executionOf(await this.#calls.fetch(request, options));
  }

  /**
   * Returns one part of an outcome, decoded: such as a display that was told by its size. It comes from
   * tenant code. `part` is `stdout`, `stderr`, `result`, `exception`, `exception/message` or, counted from
   * 0, `displays/0`, `images/0`, `video_frames/0`, `files/0`; without `mimeType` it is plain text, or the
   * only representation. Throws `NotFound` if the outcome has no such part.
   */
  async output(
    executionId: string,
    part: string,
    options: CallOptions & { mimeType?: string | undefined } = {},
  ): Promise<Uint8Array<ArrayBuffer>> {
    const request = requests.output(this.id, executionId, part, options.mimeType);
    return this.#calls.download(request, options);
  }

  /**
   * Follows an existing execution from the event after number `after`. The outcome at the end has
   * only the output and displays of these events. Throws `EventsGone` if they are no longer kept.
   */
  events(executionId: string, options: CallOptions & { after?: number } = {}): EventStream {
    const { after = 0, signal } = options;
    const existing = { sessionId: this.id, executionId, after };
    const request = async () => requests.events(this.id, executionId, after);
    return new EventStream(this.#calls, request, signal, existing);
  }

  /**
   * Returns completions at a cursor; `start` and `end` index the string as well. Throws `Conflict`
   * if the context is busy.
   */
  async complete(code: string, options: CursorOptions = {}): Promise<Completions> {
    const reply = (await this.#ask("complete", code, options)) as unknown as Completions;
    return { ...reply, start: unitsOf(code, reply.start), end: unitsOf(code, reply.end) };
  }

  /** Describes the name at a cursor. Throws `Conflict` if the context is busy. */
  async inspect(code: string, options: CursorOptions = {}): Promise<Inspection> {
    return (await this.#ask("inspect", code, options)) as unknown as Inspection;
  }

  /**
   * Tells whether code can be executed or needs another line, as a prompt asks at every Enter.
   * Throws `Conflict` if the context is busy.
   */
  async isComplete(code: string, options: QuestionOptions = {}): Promise<Completeness> {
    return (await this.#ask("is_complete", code, options)) as unknown as Completeness;
  }

  /** Raises KeyboardInterrupt in the code that `main` runs. Variables are kept. */
  async interrupt(options: CallOptions = {}): Promise<InterruptReply> {
    const request = requests.control(this.id, "interrupt");
    return (await this.#calls.fetch(request, options)) as unknown as InterruptReply;
  }

  /**
   * Gives `main` a fresh kernel, and ends background commands unless they are to survive it. Files
   * stay, and so do other contexts, unless the reply's `scope` is `session`.
   */
  async reset(options: CallOptions = {}): Promise<ResetReply> {
    const request = requests.control(this.id, "reset");
    return (await this.#calls.fetch(request, options)) as unknown as ResetReply;
  }

  /** Returns the contexts, `main` first, then in the order in which they were opened. */
  async contexts(options: CallOptions = {}): Promise<ContextInfo[]> {
    const fields = await this.#calls.fetch(get(path("sessions", this.id, "contexts")), options);
    return array(fields, "contexts", "a list of contexts") as ContextInfo[];
  }

  /**
   * Opens a context: another kernel, which is then ready. Code in it runs beside that of other
   * contexts, with variables and a queue of its own; files and limits are those of the session.
   * `await using` deletes it at the end of its block. `id`: 1 to 64 of `A-Z a-z 0-9 _ -`; random if
   * not given. Throws `Conflict` if the id is taken, `QuotaExceeded` if there are as many contexts
   * as allowed, and `ServerError` if its kernel cannot be started.
   */
  async openContext(options: CallOptions & { id?: string | undefined } = {}): Promise<Context> {
    const fields = await this.#calls.fetch(requests.openContext(this.id, options.id), options);
    return new Context(this, this.#calls, string(fields, "id", "a context"), true);
  }

  /** Returns an existing context, without a request. `await using` does not delete it. */
  context(id: string): Context {
    return new Context(this, this.#calls, id, false);
  }

  /** Restarts the idle timeout. */
  async keepalive(options: CallOptions = {}): Promise<KeepaliveReply> {
    const request = requests.control(this.id, "keepalive");
    return (await this.#calls.fetch(request, options)) as unknown as KeepaliveReply;
  }

  /**
   * Suspends the session: its memory and files go to disk, and its processes end. It keeps its id. The
   * next call that uses it resumes it first; `info()` does not. Throws `Conflict` if something is in
   * the way (`not_imageable`), which `imageable()` names; the session then goes on.
   */
  async suspend(options: CallOptions = {}): Promise<SessionInfo> {
    const fields = await this.#calls.fetch(requests.control(this.id, "suspend"), options);
    string(fields, "id", "a session");
    return fields as unknown as SessionInfo;
  }

  /** Resumes the session. One that is not suspended stays as it is. */
  async resume(options: CallOptions = {}): Promise<SessionInfo> {
    const fields = await this.#calls.fetch(requests.control(this.id, "resume"), options);
    string(fields, "id", "a session");
    return fields as unknown as SessionInfo;
  }

  /**
   * Makes sessions from the state of this one, suspended or not, which stays as it is. `count`: at
   * most 100, and 1 if not given; if one cannot be made, none is. `checkpoint`: the name of the one
   * whose state they get; that of now if not given. `await using` deletes one at the end of its block.
   * Throws `Conflict` if something is in the way (`not_imageable`), `NotFound` if there is no such
   * checkpoint (`unknown_checkpoint`), and `QuotaExceeded` if the tenant has no room for so many.
   */
  async branch(
    options: CallOptions & { count?: number | undefined; checkpoint?: string | undefined } = {},
  ): Promise<Session[]> {
    const request = images.branch(this.id, options.count ?? 1, options.checkpoint);
    const fields = await this.#calls.fetch(request, options);
    const made = array(fields, "sessions", "a list of sessions") as SessionInfo[];
    return made.map(({ id }) => new Session(this.#calls, id, true, this.#tools));
  }

  /** Tells whether the session can be suspended or branched now, and what is in the way. */
  async imageable(options: CallOptions = {}): Promise<Imageable> {
    const fields = await this.#calls.fetch(get(path("sessions", this.id, "imageable")), options);
    array(fields, "reasons", "what is in the way");
    return fields as unknown as Imageable;
  }

  /**
   * Keeps the present state of the session, which goes on, for `rollback` and `branch`. The daemon
   * chooses the `name` if it is not given. Throws `Conflict` if the name is taken, or something is in
   * the way (`not_imageable`), which `imageable()` names, and `QuotaExceeded` if the tenant has as many
   * images, or bytes of them, as it may.
   */
  async checkpoint(options: CallOptions & { name?: string | undefined } = {}): Promise<Checkpoint> {
    const fields = await this.#calls.fetch(images.checkpoint(this.id, options.name), options);
    string(fields, "name", "a checkpoint");
    return fields as unknown as Checkpoint;
  }

  /** Returns the checkpoints, oldest first. A suspended session is not resumed. */
  async checkpoints(options: CallOptions = {}): Promise<Checkpoint[]> {
    const fields = await this.#calls.fetch(get(path("sessions", this.id, "checkpoints")), options);
    return array(fields, "checkpoints", "a list of checkpoints") as Checkpoint[];
  }

  /**
   * Tells which variables are different at a checkpoint from those of another, `from`, or of the one
   * before. Changes deep inside an object are not seen. A suspended session is not resumed. Throws
   * `NotFound` if there is no such checkpoint (`unknown_checkpoint`).
   */
  async checkpointDiff(
    name: string,
    options: CallOptions & { from?: string | undefined } = {},
  ): Promise<CheckpointDiff> {
    const request = images.checkpointDiff(this.id, name, options.from);
    const fields = await this.#calls.fetch(request, options);
    for (const list of ["added", "removed", "changed"]) {
      array(fields, list, "a comparison of checkpoints");
    }
    return fields as unknown as CheckpointDiff;
  }

  /** Deletes a checkpoint. Returns whether it existed. */
  async deleteCheckpoint(name: string, options: CallOptions = {}): Promise<boolean> {
    return this.#remove(["checkpoints", name], options);
  }

  /**
   * Takes the session back to a checkpoint, and ends what it runs. The checkpoint stays. Memory,
   * working directory and `/tmp` go back together; homes, volumes and what left through the network
   * do not. Throws `NotFound` if there is no such checkpoint (`unknown_checkpoint`).
   */
  async rollback(checkpoint: string, options: CallOptions = {}): Promise<SessionInfo> {
    const fields = await this.#calls.fetch(images.rollback(this.id, checkpoint), options);
    string(fields, "id", "a session");
    return fields as unknown as SessionInfo;
  }

  /** Shows a server that listens on this port in the session to browsers, on an origin of its own. */
  async preview(port: number, options: CallOptions = {}): Promise<PreviewReply> {
    const fields = await this.#calls.fetch(requests.preview(this.id, port), options);
    string(fields, "url", "a preview");
    return fields as unknown as PreviewReply;
  }

  /** Returns state, protection, limits and usage. */
  async info(options: CallOptions = {}): Promise<SessionInfo> {
    const fields = await this.#calls.fetch(get(path("sessions", this.id)), options);
    string(fields, "id", "a session");
    return fields as unknown as SessionInfo;
  }

  /** Changes the session and returns it. All of it is done, or nothing. */
  async update(changes: SessionChanges): Promise<SessionInfo> {
    const fields = await this.#calls.fetch(requests.updateSession(this.id, changes), changes);
    string(fields, "id", "a session");
    return fields as unknown as SessionInfo;
  }

  /** Yields the executions that wait or run, or whose result is kept, newest first. */
  async *executions(options: CallOptions = {}): AsyncGenerator<ExecutionSummary, void, undefined> {
    let after: string | undefined;
    do {
      const where = path("sessions", this.id, "executions");
      const page = await this.#calls.fetch(get(where, { after }), options);
      yield* array(page, "executions", "a list of executions") as ExecutionSummary[];
      after = typeof page["next"] === "string" ? page["next"] : undefined;
    } while (after !== undefined);
  }

  /** Deletes the session. Returns, once nothing of it is left, whether it existed. */
  async delete(options: CallOptions = {}): Promise<boolean> {
    // Answered when all its processes are gone.
    return this.#remove([], options);
  }

  /** Deletes a session that `Client.session` has created; an attached one stays. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#deletesItself) {
      await this.delete();
    }
  }

  async #remove(parts: string[], options: CallOptions): Promise<boolean> {
    try {
      await this.#calls.do(remove(path("sessions", this.id, ...parts), "work"), options);
      return true;
    } catch (error) {
      if (error instanceof NotFound) {
        return false;
      }
      throw error;
    }
  }

  #ask(call: string, code: string, options: CursorOptions): Promise<Fields> {
    const { context } = options;
    const cursor = options.cursor === undefined ? undefined : charactersOf(code, options.cursor);
    return this.#calls.fetch(requests.question(this.id, call, { code, cursor, context }), options);
  }
}

// Python counts characters where JavaScript counts UTF-16 code units.
function charactersOf(code: string, units: number): number {
  return Array.from(code.slice(0, units)).length;
}

function unitsOf(code: string, characters: number): number {
  return Array.from(code).slice(0, characters).join("").length;
}
