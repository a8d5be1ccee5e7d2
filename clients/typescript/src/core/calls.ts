/** Sends requests, retries, and reads responses. */

import { ApiError, TransportError, UnexpectedAnswer } from "../errors.js";
import type { Body, Transport } from "../transport/transport.js";
import { type Fields, parseObject } from "./json.js";
import { apiError } from "./problem.js";
import type { Request } from "./request.js";
import { clock, Retries } from "./retry.js";
import { joined } from "./sse.js";

// No answer of JSON is as long as the longest string; that of a mistake may be endless.
const MAX_JSON_BYTES = 256 << 20;
const MAX_PROBLEM_BYTES = 1 << 20;

/** What every call takes. */
export interface CallOptions {
  /** Ends the call, which then throws the signal's reason. */
  signal?: AbortSignal | undefined;
}

export class Calls {
  constructor(
    readonly transport: Transport,
    readonly maxRetries: number,
  ) {
    if (!Number.isInteger(maxRetries) || maxRetries < 0) {
      throw new RangeError("maxRetries is a whole number, at least 0");
    }
  }

  /** Returns the parsed response. */
  async fetch(request: Request, { signal }: CallOptions): Promise<Fields> {
    const text = await this.#whole(request, signal, async (body) => {
      const bytes = await readAll(body, MAX_JSON_BYTES);
      return new TextDecoder().decode(bytes);
    });
    return parseObject(text, `the answer to ${request.method} ${request.target}`);
  }

  /** Makes a call whose response has no content of interest. */
  async do(request: Request, { signal }: CallOptions): Promise<void> {
    await this.#whole(request, signal, (body) => readAll(body, MAX_JSON_BYTES));
  }

  /** Returns a file's content, or the requested part. */
  async download(request: Request, { signal }: CallOptions): Promise<Uint8Array<ArrayBuffer>> {
    return this.#whole(request, signal, (body) => readAll(body, Infinity));
  }

  /** Returns a successful response, its content unread. */
  async open(request: Request, { signal }: CallOptions): Promise<Body> {
    return this.#whole(request, signal, async (body) => body);
  }

  async #whole<T>(
    request: Request,
    signal: AbortSignal | undefined,
    read: (body: Body) => Promise<T>,
  ): Promise<T> {
    const retries = new Retries(this.maxRetries);
    for (;;) {
      try {
        return await read(await this.openOnce(request, signal));
      } catch (error) {
        await this.pauseOrThrow(retries, request, error, signal);
      }
    }
  }

  /** Like `open`, without retries. */
  async openOnce(request: Request, signal: AbortSignal | undefined): Promise<Body> {
    const body = await this.transport.open(request, signal);
    const problem = unexpected(request, body);
    if (problem !== null) {
      body.close();
      throw new UnexpectedAnswer(problem);
    }
    if (body.status >= 200 && body.status < 300) {
      return body;
    }
    const text = new TextDecoder().decode(await readAll(body, MAX_PROBLEM_BYTES));
    throw apiError(body.status, body.header("retry-after"), text);
  }

  /** Waits for the next try, or throws `error` if there is none. */
  async pauseOrThrow(
    retries: Retries,
    request: Request,
    error: unknown,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const isRefusal = error instanceof ApiError || error instanceof TransportError;
    const pauseMs = isRefusal && !signal?.aborted ? retries.pauseMs(request, error) : null;
    if (pauseMs === null) {
      throw error;
    }
    await clock.sleep(pauseMs, signal);
  }
}

/** Returns the rest of a response. */
async function readAll(body: Body, maxBytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    for (let part = await body.read(); part !== null; part = await body.read()) {
      parts.push(part);
      sizeBytes += part.length;
      if (sizeBytes > maxBytes) {
        throw new UnexpectedAnswer(`an answer of more than ${maxBytes} bytes`);
      }
    }
  } finally {
    body.close();
  }
  return joined(parts);
}

/** Says what is wrong with a response, if anything. */
function unexpected(request: Request, body: Body): string | null {
  const { status } = body;
  if (status < 200 || (status >= 300 && status < 400)) {
    // Followed, it could take the token to another server.
    return `${request.target} answered ${status}: redirections are not followed`;
  }
  if (status >= 400) {
    return null;
  }
  const type = (body.header("content-type") ?? "nothing").slice(0, 100);
  const { Accept, Range } = request.headers;
  if (Accept === "text/event-stream" && !/^text\/event-stream\b/i.test(type)) {
    return `asked for events, ${request.target} answered ${type}`;
  }
  if (Range !== undefined && status !== 206) {
    return `asked for a part, ${request.target} answered ${status}`;
  }
  return null;
}
