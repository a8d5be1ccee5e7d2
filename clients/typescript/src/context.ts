/** A context: one of the kernels of a session. */

/// <reference lib="esnext.disposable" preserve="true" />

import type { Calls, CallOptions } from "./core/calls.js";
import { get, path, remove } from "./core/request.js";
import * as requests from "./core/requests.js";
import type { ExecuteOptions } from "./core/requests.js";
import type {
  Completeness,
  Completions,
  ContextInfo,
  Inspection,
  InterruptReply,
  ResetReply,
} from "./documents.js";
import { string } from "./core/json.js";
import { NotFound } from "./errors.js";
import type { Outcome } from "./outcome.js";
import type { CursorOptions, Session } from "./session.js";
import type { EventStream } from "./stream.js";

/** As for a session, which exists. */
export interface ContextExecute extends Omit<ExecuteOptions, "context" | "create"> {}

/** As for a session. */
export interface ContextCursor extends Omit<CursorOptions, "context"> {}

/**
 * A kernel with variables and a queue of its own, in a session whose files and limits it shares. Get
 * one from `Session.openContext` or `Session.context`.
 */
export class Context {
  readonly #session: Session;
  readonly #calls: Calls;
  readonly #deletesItself: boolean;

  /** @internal */
  constructor(
    session: Session,
    calls: Calls,
    readonly id: string,
    deletesItself: boolean,
  ) {
    if (!id) {
      throw new TypeError("a context has an id");
    }
    this.#session = session;
    this.#calls = calls;
    this.#deletesItself = deletesItself;
  }

  /** The session's id. */
  get sessionId(): string {
    return this.#session.id;
  }

  /** Runs code here, as `Session.execute` does, and waits for its outcome. */
  execute(code: string, options: ContextExecute = {}): Promise<Outcome> {
    return this.#session.execute(code, { ...options, context: this.id });
  }

  /** Runs like `execute`, and yields the events as they happen. */
  stream(code: string, options: ContextExecute = {}): EventStream {
    return this.#session.stream(code, { ...options, context: this.id });
  }

  /** Returns completions at a cursor. Throws `Conflict` if the context is busy. */
  complete(code: string, options: ContextCursor = {}): Promise<Completions> {
    return this.#session.complete(code, { ...options, context: this.id });
  }

  /** Describes the name at a cursor. Throws `Conflict` if the context is busy. */
  inspect(code: string, options: ContextCursor = {}): Promise<Inspection> {
    return this.#session.inspect(code, { ...options, context: this.id });
  }

  /** Tells whether code can be executed. Throws `Conflict` if the context is busy. */
  isComplete(code: string, options: CallOptions = {}): Promise<Completeness> {
    return this.#session.isComplete(code, { ...options, context: this.id });
  }

  /** Raises KeyboardInterrupt in the code that runs here. Variables are kept. */
  async interrupt(options: CallOptions = {}): Promise<InterruptReply> {
    const request = requests.controlContext(this.sessionId, this.id, "interrupt");
    return (await this.#calls.fetch(request, options)) as unknown as InterruptReply;
  }

  /** Gives the context a fresh kernel. The reply's `scope` tells whether others had to end too. */
  async reset(options: CallOptions = {}): Promise<ResetReply> {
    const request = requests.controlContext(this.sessionId, this.id, "reset");
    return (await this.#calls.fetch(request, options)) as unknown as ResetReply;
  }

  /** Returns the context's state. */
  async info(options: CallOptions = {}): Promise<ContextInfo> {
    const fields = await this.#calls.fetch(get(this.#path()), options);
    string(fields, "id", "a context");
    return fields as unknown as ContextInfo;
  }

  /**
   * Deletes the context with what it runs. Returns whether it existed. Throws `Conflict` for `main`,
   * which is deleted with its session.
   */
  async delete(options: CallOptions = {}): Promise<boolean> {
    try {
      await this.#calls.do(remove(this.#path(), "work"), options);
      return true;
    } catch (error) {
      if (error instanceof NotFound) {
        return false;
      }
      throw error;
    }
  }

  /** Deletes a context that `Session.openContext` has opened; an existing one stays. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#deletesItself) {
      await this.delete();
    }
  }

  #path(): string {
    return path("sessions", this.sessionId, "contexts", this.id);
  }
}
