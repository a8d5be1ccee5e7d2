/** The client of a daemon. */

/// <reference lib="esnext.disposable" preserve="true" />

import { platformTransport } from "#platform";
import { Approvals } from "./approvals.js";
import { addressOf } from "./core/address.js";
import { Calls, type CallOptions } from "./core/calls.js";
import { array, string } from "./core/json.js";
import { get, path, streamed } from "./core/request.js";
import { ToolSet } from "./core/tools.js";
import * as requests from "./core/requests.js";
import type { Command, RunOptions, SessionFilters, SessionOptions } from "./core/requests.js";
import type { HostInfo, SessionInfo, TenantInfo } from "./documents.js";
import { Images } from "./images.js";
import { Outcome } from "./outcome.js";
import { inForm, Session } from "./session.js";
import { Environments } from "./environments.js";
import { Homes, Volumes } from "./stored.js";
import { EventStream } from "./stream.js";
import { WebTransport } from "./transport/web.js";

export interface ClientOptions {
  /**
   * `http://HOST:PORT` or, in Node, `unix:/PATH`. Defaults to the environment variable
   * `VIVARIUM_URL`, then to `http://127.0.0.1:8470`.
   */
  url?: string | undefined;
  /** The tenant's bearer token. Defaults to the environment variable `VIVARIUM_TOKEN`. */
  token?: string | undefined;
  /**
   * Milliseconds for connecting, and for every silence in a call that does not run code; 30,000 by
   * default. Calls that run code have a `timeoutMs` of their own.
   */
  timeoutMs?: number | undefined;
  /**
   * How often a failed call is retried where it cannot be carried out twice: the daemon was not
   * reached, the call is idempotent (executions are: they carry an Idempotency-Key), or it was
   * refused for now (429, 503), after the time that the daemon asks for. 2 by default; 0 switches
   * retries off.
   */
  maxRetries?: number | undefined;
  /** Replaces the transport that is made for `url`, for proxies and certificates. */
  fetch?: typeof globalThis.fetch | undefined;
}

/** A Vivarium daemon. */
export class Client {
  /** The daemon's address. */
  readonly url: string;
  readonly #calls: Calls;

  constructor(options: ClientOptions = {}) {
    const { timeoutMs = 30_000, maxRetries = 2 } = options;
    // Of more, a timer makes 1 ms.
    if (!(timeoutMs > 0 && timeoutMs < 2 ** 31)) {
      throw new RangeError("timeoutMs is more than 0 and less than 2 ** 31");
    }
    const address = addressOf(options.url, options.token);
    const transport = options.fetch
      ? new WebTransport(address, timeoutMs, options.fetch)
      : platformTransport(address, timeoutMs);
    this.url = address.url;
    this.#calls = new Calls(transport, maxRetries);
  }

  /**
   * Runs code (a string) or a command (a list, or `{ shell }`) in a session of its own, and waits
   * for the outcome.
   */
  async run(program: string | Command, options: RunOptions = {}): Promise<Outcome> {
    const tools = new ToolSet(options.tools);
    if (!tools.isEmpty) {
      const followed = this.#stream(program, requests.followed(options), tools);
      return inForm(this.#calls, await followed.wait(), options);
    }
    const request = await requests.run(program, options, tools);
    return new Outcome(await this.#calls.fetch(request, options));
  }

  /** Runs like `run`, and yields the events as they happen. */
  stream(program: string | Command, options: RunOptions = {}): EventStream {
    return this.#stream(program, options, new ToolSet(options.tools));
  }

  #stream(program: string | Command, options: RunOptions, tools: ToolSet): EventStream {
    const request = async () => streamed(await requests.run(program, options, tools));
    return new EventStream(this.#calls, request, options.signal, undefined, tools);
  }

  /**
   * Creates a session, whose kernel is then ready. `await using` deletes it at the end of its
   * block; otherwise call `Session.delete`.
   */
  async session(options: SessionOptions = {}): Promise<Session> {
    const tools = new ToolSet(options.tools);
    const info = await this.#calls.fetch(requests.createSession(options, tools), options);
    return new Session(this.#calls, string(info, "id", "a session"), true, tools);
  }

  /** Returns an existing session, without a request. `await using` does not delete it. */
  attach(id: string): Session {
    return new Session(this.#calls, id, false);
  }

  /** Yields the tenant's sessions, ordered by id: those that have all of what is given. */
  async *sessions(options: SessionFilters = {}): AsyncGenerator<SessionInfo, void, undefined> {
    let after: string | undefined;
    do {
      const page = await this.#calls.fetch(requests.sessions(after, options), options);
      yield* array(page, "sessions", "a list of sessions") as SessionInfo[];
      after = typeof page["next"] === "string" ? page["next"] : undefined;
    } while (after !== undefined);
  }

  /** Calls that wait until somebody allows or denies them. */
  get approvals(): Approvals {
    return new Approvals(this.#calls);
  }

  /** The tenant's environments. */
  get environments(): Environments {
    return new Environments(this.#calls);
  }

  /** Images of the tenant's suspended sessions. */
  get images(): Images {
    return new Images(this.#calls);
  }

  /** The tenant's homes. */
  get homes(): Homes {
    return new Homes(this.#calls);
  }

  /** The tenant's volumes. */
  get volumes(): Volumes {
    return new Volumes(this.#calls);
  }

  /** Returns what the host offers. */
  async host(options: CallOptions = {}): Promise<HostInfo> {
    const fields = await this.#calls.fetch(get(path("host")), options);
    string(fields, "version", "a host");
    return fields as unknown as HostInfo;
  }

  /** Returns what every tenant uses, for operators: `GET /metrics/tenants`. */
  async tenants(options: CallOptions = {}): Promise<TenantInfo[]> {
    const fields = await this.#calls.fetch(get("/metrics/tenants"), options);
    return array(fields, "tenants", "a list of tenants") as TenantInfo[];
  }

  /** Closes idle connections, which do not keep a program from ending either. */
  close(): void {
    this.#calls.transport.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}
