/**
 * The transport over `node:http`: Unix sockets, streamed uploads, and answers that take longer than
 * the five minutes after which Node's `fetch` gives up.
 */

import { randomUUID } from "node:crypto";
import { open as openFile, rename, rm } from "node:fs/promises";
import * as http from "node:http";
import * as https from "node:https";
import type { Socket } from "node:net";
import { basename, dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setImmediate } from "node:timers/promises";

import type { Address } from "../core/address.js";
import type { Request } from "../core/request.js";
import { TransportError, UnexpectedAnswer } from "../errors.js";
import { type Body, headersOf, Silence, type Transport, VERSION } from "./transport.js";

// The daemon keeps an idle connection longer: none is reused while it is being closed.
const AGENT = { keepAlive: true, keepAliveMsecs: 30_000, maxFreeSockets: 20, timeout: 5000 };

// Larger content is sent in parts, each with the client's time.
const LARGE_BYTES = 1 << 20;

export function platformTransport(address: Address, timeoutMs: number): Transport {
  return new NodeTransport(address, timeoutMs);
}

class NodeTransport implements Transport {
  readonly #address: Address;
  readonly #timeoutMs: number;
  readonly #agent: http.Agent;
  readonly #request: typeof http.request;
  readonly #target: http.RequestOptions;
  readonly #prefix: string;

  constructor(address: Address, timeoutMs: number) {
    const url = new URL(address.base);
    const isSecure = url.protocol === "https:";
    this.#address = address;
    this.#timeoutMs = timeoutMs;
    this.#agent = isSecure ? new https.Agent(AGENT) : new http.Agent(AGENT);
    this.#request = isSecure ? https.request : http.request;
    this.#prefix = url.pathname.replace(/\/$/, "");
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    this.#target = address.socketPath !== null
      ? { socketPath: address.socketPath, host: "localhost" }
      : { host, ...(url.port && { port: url.port }) };
  }

  open(request: Request, signal?: AbortSignal): Promise<Body> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const size = request.content?.sizeBytes;
      const sent = this.#request({
        ...this.#target,
        agent: this.#agent,
        method: request.method,
        path: this.#prefix + request.target,
        headers: {
          "User-Agent": `vivarium-client-js/${VERSION}`,
          "Accept-Encoding": "identity",
          ...headersOf(request, this.#address),
          ...(typeof size === "number" && { "Content-Length": size }),
        },
      });
      const exchange = new Exchange(request, sent, this.#address, this.#timeoutMs, signal);
      const fail = (error: unknown) => {
        if (!exchange.answered) {
          reject(exchange.failure(error));
        }
      };
      sent.on("response", (response) => {
        exchange.answered = true;
        resolve(new NodeBody(response, exchange));
      });
      sent.on("error", fail);
      sent.on("close", () => fail(new Error("the connection was closed without an answer")));
      exchange.send().catch(fail);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** One request and its response: what may end it early. */
class Exchange {
  readonly silence: Silence;
  /** Whether the response has begun: from then on reading it waits, not sending. */
  answered = false;
  readonly #abort = () => this.sent.destroy();
  /** Whether the request may have reached the daemon. */
  #reached = false;
  #ended = false;
  #waitsForSource = false;
  /** What ended it on this side. */
  #own: { error: unknown } | null = null;

  constructor(
    readonly request: Request,
    readonly sent: http.ClientRequest,
    readonly address: Address,
    timeoutMs: number,
    readonly signal: AbortSignal | undefined,
  ) {
    this.silence = new Silence(timeoutMs, (error) => this.end(error));
    this.silence.arm(timeoutMs, false);
    signal?.addEventListener("abort", this.#abort, { once: true });
    sent.on("finish", () => this.#watch());
    sent.on("socket", (socket) => {
      if (!socket.connecting) {
        this.#connected(socket);
        return;
      }
      const event = "encrypted" in socket ? "secureConnect" : "connect";
      socket.once(event, () => this.#connected(socket));
    });
  }

  #connected(socket: Socket): void {
    this.#reached = true;
    socket.setKeepAlive(true, AGENT.keepAliveMsecs);
    outliveWriting(socket);
    this.#watch();
  }

  /** Limits the silence of whoever's turn it is, until there is an answer. */
  #watch(): void {
    if (!this.#reached || this.answered || this.#ended) {
      return;
    }
    if (this.sent.writableFinished) {
      this.silence.await(this.request);
    } else {
      this.silence.arm(this.#waitsForSource ? null : this.silence.timeoutMs, true);
    }
  }

  /** Sends the content. */
  async send(): Promise<void> {
    const { content } = this.request;
    if (content === null) {
      this.sent.end();
    } else if (content.whole instanceof Uint8Array && content.whole.length < LARGE_BYTES) {
      this.sent.end(content.whole);
    } else {
      const chunks = Readable.from(this.#chunks(content.chunks()), { highWaterMark: 1 });
      await pipeline(chunks, this.sent);
    }
  }

  /** Hands chunks on: each is waited for as long as it takes, and goes in the client's time. */
  async *#chunks(chunks: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
    const waitForSource = (waits: boolean) => {
      this.#waitsForSource = waits;
      this.#watch();
    };
    try {
      waitForSource(true);
      for await (const chunk of chunks) {
        waitForSource(false);
        yield chunk;
        // Writes that are done at once would let nothing be read.
        await setImmediate();
        waitForSource(true);
      }
      waitForSource(false);
    } catch (error) {
      this.end(error);
      throw error;
    }
  }

  /** Ends it for a reason of this side. */
  end(error: unknown): void {
    this.#own ??= { error };
    this.sent.destroy();
  }

  /** Nothing more is expected. */
  finish(): void {
    this.#ended = true;
    this.silence.disarm();
    this.signal?.removeEventListener("abort", this.#abort);
  }

  /** Returns what to throw for a failure of the connection. */
  failure(error: unknown): unknown {
    this.finish();
    if (this.signal?.aborted) {
      return this.signal.reason;
    }
    if (this.#own) {
      return this.#own.error;
    }
    const reason = error instanceof Error ? error.message || error.name : String(error);
    const words = `${this.address.url}: ${reason}`;
    return new TransportError(words, { cause: error, reached: this.#reached });
  }
}

type Written = (error?: Error | null) => void;

/**
 * Keeps a socket to which nothing can be written any more until it has been read: a daemon that
 * refuses an upload answers, and closes the connection before it has read everything. Node would
 * destroy the socket with the answer in it.
 */
function outliveWriting(socket: Socket & { [OUTLIVES]?: true }): void {
  if (socket[OUTLIVES]) {
    return;
  }
  socket[OUTLIVES] = true;
  const kept = (written: Written) => (error?: Error | null) => {
    const isClosed = error && "code" in error && CLOSED.includes(error.code);
    written(isClosed ? null : error);
  };
  const { _write, _writev } = socket;
  socket._write = (chunk, encoding, written) => _write.call(socket, chunk, encoding, kept(written));
  if (_writev) {
    socket._writev = (chunks, written) => _writev.call(socket, chunks, kept(written));
  }
}

const CLOSED: unknown[] = ["EPIPE", "ECONNRESET"];

const OUTLIVES = Symbol("outlives writing");

class NodeBody implements Body {
  readonly status: number;
  readonly #response: http.IncomingMessage;
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #exchange: Exchange;

  constructor(response: http.IncomingMessage, exchange: Exchange) {
    this.status = response.statusCode ?? 0;
    this.#response = response;
    this.#exchange = exchange;
    this.#chunks = response[Symbol.asyncIterator]();
    exchange.silence.disarm();
    // Without a listener it would be forgotten until the next read.
    response.on("error", () => {});
  }

  header(name: string): string | null {
    const value = this.#response.headers[name];
    return typeof value === "string" ? value : null;
  }

  async read(): Promise<Uint8Array | null> {
    const { silence, request } = this.#exchange;
    silence.await(request);
    try {
      const encoding = this.header("content-encoding");
      if (encoding !== null && encoding !== "identity") {
        throw new UnexpectedAnswer(`${request.target} answered in ${encoding.slice(0, 40)}`);
      }
      const { done, value } = await this.#chunks.next();
      if (!done) {
        return value;
      }
    } catch (error) {
      this.close();
      throw error instanceof UnexpectedAnswer ? error : this.#exchange.failure(error);
    } finally {
      silence.disarm();
    }
    this.close();
    return null;
  }

  close(): void {
    this.#exchange.finish();
    // What was read to its end, and whose request was sent, is kept for the next.
    if (!this.#response.complete || !this.#exchange.sent.writableFinished) {
      this.#exchange.sent.destroy();
    }
  }
}

/** Returns a key that nobody guesses. */
export function randomKey(): string {
  return randomUUID();
}

/** Writes a file that takes its place only when it is complete. Returns its size. */
export async function replaceFile(
  target: string,
  chunks: AsyncIterable<Uint8Array>,
): Promise<number> {
  const temporary = join(dirname(target), `.${basename(target)}.${randomUUID()}`);
  let sizeBytes = 0;
  try {
    const file = await openFile(temporary, "wx");
    try {
      for await (const chunk of chunks) {
        await file.writeFile(chunk);
        sizeBytes += chunk.length;
      }
    } finally {
      await file.close();
    }
    await rename(temporary, target);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  return sizeBytes;
}
