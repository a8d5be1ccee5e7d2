/** A daemon that answers what a test says, over a real socket. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

import { Client, type ClientOptions } from "vivarium-client";

import { clock } from "../dist/core/retry.js";

const { sleep } = clock;

/** A request that came. */
export interface Seen {
  method: string;
  target: string;
  headers: IncomingMessage["headers"];
  body: Buffer;
}

/** What answers a request. */
export type Answer = (response: ServerResponse, seen: Seen) => void;

/** Answers with JSON. */
export function js(value: unknown, status = 200, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, { "Content-Type": "application/json", ...headers });
    response.end(JSON.stringify(value));
  };
}

/** Refuses. */
export function problem(status: number, code: string, headers = {}): Answer {
  const type = { "Content-Type": "application/problem+json", ...headers };
  return js({ status, code, detail: `because of ${code}`, field: "a.b" }, status, type);
}

/** Answers with events, and ends the response as if it were complete. */
export function sse(...parts: (string | Uint8Array)[]): Answer {
  return (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    parts.forEach((part) => response.write(part));
    response.end();
  };
}

/** Ends the connection without an answer. */
export const drop: Answer = (response) => response.destroy();

export const OUTCOME = {
  execution_id: "1",
  session_id: "s",
  status: "ok",
  detail: "",
  state: "preserved",
  duration_ms: 1,
  stdout: "hello\n",
};

/** One event of a stream. */
export function message(id: number | string, event: string, data: unknown): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** The events of an execution that prints `hello`. */
export const EVENTS = [
  message(1, "started", { execution_id: "1", session_id: "s" }),
  message(2, "stdout", { text: "hel" }),
  message(3, "stdout", { text: "lo\n" }),
  message(4, "done", { ...OUTCOME, stdout: undefined }),
];

export class Fake {
  readonly seen: Seen[] = [];
  answers: Answer[];
  /** Answers before the request has ended. */
  answersEarly = false;
  /** Reads no request's content, and answers none. */
  readsNothing = false;
  readonly #server: Server;

  /** Gives these answers, one after the other; the last one for ever. */
  constructor(...answers: Answer[]) {
    this.answers = answers;
    this.#server = createServer(async (request, response) => {
      if (this.readsNothing) {
        return;
      }
      const parts: Buffer[] = [];
      request.on("error", () => {});
      request.on("data", (part) => parts.push(part));
      if (!this.answersEarly) {
        await Promise.race([once(request, "end"), once(request, "close")]).catch(() => {});
      }
      const { method = "", url: target = "", headers } = request;
      const seen = { method, target, headers, body: Buffer.concat(parts) };
      this.seen.push(seen);
      const answer = this.answers.length > 1 ? this.answers.shift() : this.answers[0];
      answer?.(response, seen);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async listen(): Promise<void> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

/** Starts a fake daemon, and a client of it, for one test. */
export async function fake(
  test: TestContext,
  answers: Answer[],
  options: ClientOptions = {},
): Promise<{ server: Fake; client: Client; pauses: number[] }> {
  const server = new Fake(...answers);
  await server.listen();
  test.after(() => server.close());
  const pauses = noPauses(test);
  return { server, client: new Client({ url: server.url, ...options }), pauses };
}

/** Notes the pauses before further tries, in milliseconds, instead of waiting for them. */
export function noPauses(test: TestContext): number[] {
  const pauses: number[] = [];
  clock.sleep = async (ms) => void pauses.push(ms);
  test.after(() => {
    clock.sleep = sleep;
  });
  return pauses;
}
