/** A command that runs in the background. */

import type { Calls, CallOptions } from "./core/calls.js";
import type { Bytes } from "./core/content.js";
import { type Fields, object, string } from "./core/json.js";
import * as requests from "./core/requests.js";
import type { PtySize } from "./documents.js";
import { Conflict, EventsGone, UnexpectedAnswer } from "./errors.js";
import { type Execution, Outcome } from "./outcome.js";
import { EventStream } from "./stream.js";

/**
 * A command in the background. Get one from `Session.start` or `Session.process`. It does not end
 * with this object, and not with this program.
 */
export class Process {
  readonly #calls: Calls;

  /** @internal */
  constructor(
    calls: Calls,
    readonly sessionId: string,
    /** The execution's id, with which any client of the tenant finds it. */
    readonly id: string,
  ) {
    if (!id) {
      throw new TypeError("a process has an id");
    }
    this.#calls = calls;
  }

  /**
   * Writes to standard input. Returns the number of bytes, once the pipe has taken them. Throws
   * `Conflict` if the command has ended or was not started with `stdinOpen`, and `QuotaExceeded` if
   * it has read nothing for 30 s.
   */
  async write(data: string | Bytes, options: CallOptions = {}): Promise<number> {
    const request = requests.writeStdin(this.sessionId, this.id, data, false);
    const written = (await this.#calls.fetch(request, options))["written_bytes"];
    if (typeof written !== "number") {
      throw new UnexpectedAnswer("an answer without the number of bytes that were written");
    }
    return written;
  }

  /** Ends standard input. Does nothing if the command has ended. */
  async closeStdin(options: CallOptions = {}): Promise<void> {
    await this.#isRunning(requests.writeStdin(this.sessionId, this.id, "", true), options);
  }

  /**
   * Sends a signal, such as `SIGHUP`, to its process group; `SIGKILL` goes to everything that it
   * has started, too. Returns whether it was running.
   */
  async sendSignal(name: string, options: CallOptions = {}): Promise<boolean> {
    return this.#isRunning(requests.signal(this.sessionId, this.id, name), options);
  }

  /** Sends `SIGTERM`. Returns whether it was running. */
  async terminate(options: CallOptions = {}): Promise<boolean> {
    return this.sendSignal("SIGTERM", options);
  }

  /** Sends `SIGKILL` to it and what it has started. Returns whether it was running. */
  async kill(options: CallOptions = {}): Promise<boolean> {
    return this.sendSignal("SIGKILL", options);
  }

  /** Changes the size of its terminal. Throws `Conflict` if it has ended. */
  async resize(size: PtySize, options: CallOptions = {}): Promise<void> {
    await this.#calls.do(requests.resize(this.sessionId, this.id, size), options);
  }

  /** Returns its outcome; null while it runs. */
  async poll(options: CallOptions = {}): Promise<Outcome | null> {
    const request = requests.execution(this.sessionId, this.id);
    return executionOf(await this.#calls.fetch(request, options)).outcome;
  }

  /**
   * Waits for its end and returns its outcome. For no longer than a second:
   * `wait({ signal: AbortSignal.timeout(1000) })`.
   */
  async wait(options: CallOptions = {}): Promise<Outcome> {
    for (;;) {
      const outcome = await this.poll(options);
      if (outcome !== null) {
        return outcome;
      }
      try {
        await this.stream(options).wait();
      } catch (error) {
        // The connection broke, and much was printed since: on with what is kept now.
        if (!(error instanceof EventsGone)) {
          throw error;
        }
      }
    }
  }

  /**
   * Follows its events after number `after`; without, from the first that is kept. Closing the
   * stream does not stop it. The outcome at the end has only the output of these events. Throws
   * `EventsGone` if those after `after` are no longer kept.
   */
  stream(options: CallOptions & { after?: number | undefined } = {}): EventStream {
    const { after, signal } = options;
    const existing = { sessionId: this.sessionId, executionId: this.id, after };
    const request = async () => requests.events(this.sessionId, this.id, after);
    return new EventStream(this.#calls, request, signal, existing);
  }

  async #isRunning(
    request: ReturnType<typeof requests.signal>,
    options: CallOptions,
  ): Promise<boolean> {
    try {
      await this.#calls.do(request, options);
      return true;
    } catch (error) {
      if (error instanceof Conflict && error.code === "not_running") {
        return false;
      }
      throw error;
    }
  }
}

/** Reads the state of an execution. */
export function executionOf(fields: Fields): Execution {
  string(fields, "state", "an execution");
  const outcome = fields["outcome"] ?? null;
  const known = outcome === null ? null : new Outcome(object(outcome, "an outcome"));
  return { ...(fields as unknown as Execution), outcome: known };
}
