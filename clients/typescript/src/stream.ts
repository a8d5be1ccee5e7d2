/** The events of an execution, as an asynchronous iterator. */

/// <reference lib="esnext.disposable" preserve="true" />

import type { Calls } from "./core/calls.js";
import { Collector, eventNumber } from "./core/collect.js";
import * as requests from "./core/requests.js";
import type { Request } from "./core/request.js";
import { Retries } from "./core/retry.js";
import { Decoder } from "./core/sse.js";
import type { ToolSet } from "./core/tools.js";
import { TransportError } from "./errors.js";
import type { Event } from "./events.js";
import type { Outcome } from "./outcome.js";
import type { Body } from "./transport/transport.js";

/**
 * Yields each event once and in order, as it happens, over as many connections as it takes: after
 * a dropped connection it continues after the last event, and the code never runs again. Until the
 * execution's id is known, the same request is sent again with the same Idempotency-Key.
 *
 * The first use sends the request. Iterate it to the end, or close it, which leaving a `for await`
 * does as well. Closing it does not stop the code, unless `cancelOnDisconnect` was given.
 */
export class EventStream implements AsyncIterableIterator<Event> {
  readonly #calls: Calls;
  readonly #request: () => Promise<Request>;
  readonly #tools: ToolSet | undefined;
  readonly #signal: AbortSignal | undefined;
  readonly #closing = new AbortController();
  readonly #events: AsyncGenerator<Event, void, undefined>;
  #lastNumber: number;
  /** Where it begins; undefined for the first event that is kept. */
  readonly #first: number | undefined;
  #sessionId: string | null = null;
  #executionId: string | null = null;
  #outcome: Outcome | null = null;

  /** @internal */
  constructor(
    calls: Calls,
    request: () => Promise<Request>,
    signal: AbortSignal | undefined,
    existing?: { sessionId: string; executionId: string; after: number | undefined },
    tools?: ToolSet,
  ) {
    this.#calls = calls;
    this.#request = request;
    this.#tools = tools?.isEmpty ? undefined : tools;
    this.#signal = signal;
    this.#lastNumber = existing?.after ?? 0;
    this.#first = existing?.after;
    this.#sessionId = existing?.sessionId ?? null;
    this.#executionId = existing?.executionId ?? null;
    this.#events = this.#follow();
  }

  /** The session's id; null until known. */
  get sessionId(): string | null {
    return this.#sessionId;
  }

  /** The execution's id; null until known. */
  get executionId(): string | null {
    return this.#executionId;
  }

  /** The number of the last event that was yielded; `Session.events` continues after it. */
  get lastNumber(): number {
    return this.#lastNumber;
  }

  /** The outcome; null until the last event. */
  get outcome(): Outcome | null {
    return this.#outcome;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Event, void>> {
    return this.#events.next();
  }

  /** Closes the stream; `for await` calls it when it is left early. */
  async return(): Promise<IteratorResult<Event, void>> {
    await this.close();
    return { done: true, value: undefined };
  }

  /** Reads the remaining events and returns the outcome. */
  async wait(): Promise<Outcome> {
    while (!(await this.next()).done) {
      // The outcome has all of them.
    }
    if (this.#outcome === null) {
      throw new TransportError("the stream was closed before its end");
    }
    return this.#outcome;
  }

  /** Closes the connection. Whoever waits for an event finds the end. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#events.return();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async *#follow(): AsyncGenerator<Event, void, undefined> {
    const abort = () => this.#closing.abort(this.#signal?.reason);
    this.#signal?.throwIfAborted();
    this.#signal?.addEventListener("abort", abort, { once: true });
    try {
      const request = await this.#request();
      yield* this.#connections(request);
    } catch (error) {
      // A stream that was closed has come to its end; one that was aborted has not.
      if (this.#signal?.aborted || !this.#closing.signal.aborted) {
        throw error;
      }
    } finally {
      this.#signal?.removeEventListener("abort", abort);
    }
  }

  async *#connections(first: Request): AsyncGenerator<Event, void, undefined> {
    const { signal } = this.#closing;
    const retries = new Retries(this.#calls.maxRetries);
    const collector = new Collector();
    while (this.#outcome === null) {
      const request =
        this.#sessionId !== null && this.#executionId !== null
          ? requests.events(this.#sessionId, this.#executionId, this.#lastNumber || this.#first)
          : first;
      try {
        const body = await this.#calls.openOnce(request, signal);
        try {
          yield* this.#read(body, collector, retries);
        } finally {
          body.close();
        }
      } catch (error) {
        await this.#calls.pauseOrThrow(retries, request, error, signal);
      }
    }
  }

  async *#read(
    body: Body,
    collector: Collector,
    retries: Retries,
  ): AsyncGenerator<Event, void, undefined> {
    const decoder = new Decoder();
    for (let chunk = await body.read(); chunk !== null; chunk = await body.read()) {
      for (const message of decoder.feed(chunk)) {
        const number = eventNumber(message);
        if (number <= this.#lastNumber) {
          continue;
        }
        const event = collector.event(number, message);
        this.#lastNumber = number;
        retries.beginAnew();
        if (event.type === "started" || event.type === "awaiting_approval") {
          this.#sessionId = event.session_id;
          this.#executionId = event.execution_id;
        }
        if (event.type === "call" && this.#tools !== undefined) {
          // Beside the stream, which tells of others meanwhile.
          void this.#tools.answer(this.#calls, event);
        }
        if (event.type === "done") {
          this.#outcome = event.outcome;
        }
        yield event;
        if (event.type === "done") {
          return;
        }
      }
    }
    throw new TransportError("the stream of events ended before the execution did");
  }
}
