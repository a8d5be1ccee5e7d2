/** The transport over `fetch`, for browsers and whatever else has no `node:http`. */

import type { Address } from "../core/address.js";
import { joined } from "../core/sse.js";
import type { Request } from "../core/request.js";
import { TransportError, UnexpectedAnswer } from "../errors.js";
import { type Body, headersOf, Silence, type Transport } from "./transport.js";

export type Fetch = typeof globalThis.fetch;

export function platformTransport(address: Address, timeoutMs: number): Transport {
  // Called as a method of another object, a browser's fetch refuses.
  return new WebTransport(address, timeoutMs, (...args) => fetch(...args));
}

export async function replaceFile(
  _target: string,
  _chunks: AsyncIterable<Uint8Array>,
): Promise<number> {
  throw new TypeError("a local file needs Node: use open");
}

/** Returns a key that nobody guesses. `crypto.randomUUID` needs https. */
export function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class WebTransport implements Transport {
  readonly #address: Address;
  readonly #timeoutMs: number;
  readonly #fetch: Fetch;

  constructor(address: Address, timeoutMs: number, fetch: Fetch) {
    if (address.socketPath !== null) {
      throw new TypeError("fetch knows no Unix sockets: use Node's transport");
    }
    this.#address = address;
    this.#timeoutMs = timeoutMs;
    this.#fetch = fetch;
  }

  async open(request: Request, signal?: AbortSignal): Promise<Body> {
    signal?.throwIfAborted();
    const body = await bodyOf(request);
    const exchange = new Exchange(request, this.#timeoutMs, signal);
    // How an upload gets on is not told.
    const isLimited = request.patience === "call" && request.method !== "PUT";
    exchange.silence.arm(isLimited ? this.#timeoutMs : null, true);
    try {
      const response = await this.#fetch(this.#address.base + request.target, {
        method: request.method,
        headers: headersOf(request, this.#address),
        body,
        signal: exchange.controller.signal,
        redirect: "manual",
        cache: "no-store",
        referrerPolicy: "no-referrer",
      });
      // A browser shows nothing of it, not even the status.
      if (response.type === "opaqueredirect") {
        throw new UnexpectedAnswer(`${request.target} is redirected, which is not followed`);
      }
      return new WebBody(response, exchange);
    } catch (error) {
      exchange.finish();
      throw exchange.failure(error, this.#address);
    } finally {
      exchange.silence.disarm();
    }
  }

  close(): void {}
}

/** One request and its response: what may end it early. */
class Exchange {
  readonly controller = new AbortController();
  readonly silence: Silence;
  readonly #signal: AbortSignal | undefined;
  readonly #abort = () => this.controller.abort(this.#signal?.reason);
  #timedOut: TransportError | null = null;

  constructor(
    readonly request: Request,
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ) {
    this.#signal = signal;
    this.silence = new Silence(timeoutMs, (error) => {
      this.#timedOut = error;
      this.controller.abort(error);
    });
    signal?.addEventListener("abort", this.#abort, { once: true });
  }

  finish(): void {
    this.#signal?.removeEventListener("abort", this.#abort);
  }

  /** Returns what to throw for a failure of fetch. */
  failure(error: unknown, address?: Address): unknown {
    if (this.#signal?.aborted) {
      return this.#signal.reason;
    }
    if (this.#timedOut || error instanceof UnexpectedAnswer) {
      return this.#timedOut ?? error;
    }
    const cause = error instanceof Error ? error.cause : undefined;
    const reason = [error, cause].filter((one) => one instanceof Error).map((one) => one.message);
    const words = [address?.url, ...reason].filter(Boolean).join(": ");
    return new TransportError(words, { cause: error, reached: !isUnsent(cause) });
  }
}

/** Whether Node's fetch says that there was no connection. Browsers do not say. */
function isUnsent(cause: unknown): boolean {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined;
  return code === "ECONNREFUSED" || code === "ENOTFOUND" || code === "UND_ERR_CONNECT_TIMEOUT";
}

/** Browsers stream uploads rarely or not: what is no Blob is read first. */
async function bodyOf(request: Request): Promise<Uint8Array<ArrayBuffer> | Blob | null> {
  if (request.content === null) {
    return null;
  }
  const { whole } = request.content;
  if (whole instanceof Blob) {
    return whole;
  }
  const parts: Uint8Array[] = [];
  for await (const part of request.content.chunks()) {
    parts.push(part);
  }
  return joined(parts);
}

class WebBody implements Body {
  readonly status: number;
  readonly #headers: Headers;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  readonly #exchange: Exchange;

  constructor(response: Response, exchange: Exchange) {
    this.status = response.status;
    this.#headers = response.headers;
    this.#reader = response.body?.getReader();
    this.#exchange = exchange;
  }

  header(name: string): string | null {
    return this.#headers.get(name);
  }

  async read(): Promise<Uint8Array | null> {
    const { silence, request } = this.#exchange;
    silence.await(request);
    try {
      const part = await this.#reader?.read();
      if (part?.value) {
        return part.value;
      }
      this.#exchange.finish();
      return null;
    } catch (error) {
      this.#exchange.finish();
      throw this.#exchange.failure(error);
    } finally {
      silence.disarm();
    }
  }

  close(): void {
    this.#exchange.finish();
    this.#exchange.controller.abort();
  }
}
