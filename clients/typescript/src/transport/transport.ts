/** What the client needs of a network. */

import type { Address } from "../core/address.js";
import type { Request } from "../core/request.js";
import { TransportError } from "../errors.js";

export const VERSION = "0.1.0";

// The daemon's streams say something every 15 s.
const EVENTS_TIMEOUT_MS = 60_000;

/** A response whose content is still arriving. */
export interface Body {
  readonly status: number;
  /** Returns a header's value; null if there is none. */
  header(name: string): string | null;
  /** Returns the next bytes; null at the end. Throws `TransportError`. */
  read(): Promise<Uint8Array | null>;
  /** Closes it at any point. */
  close(): void;
}

/** Sends requests. It follows no redirection: a token is for one address. */
export interface Transport {
  /**
   * Sends a request and waits for the head of the response. The signal ends the response as well,
   * and its reason is thrown.
   */
  open(request: Request, signal?: AbortSignal): Promise<Body>;
  /** Closes idle connections. */
  close(): void;
}

/** Returns a request's headers. */
export function headersOf(request: Request, address: Address): Record<string, string> {
  const headers: Record<string, string> = { Accept: "application/json", ...request.headers };
  if (address.token !== null) {
    headers["Authorization"] = `Bearer ${address.token}`;
  }
  return headers;
}

/** A limit on silence: armed while something is awaited. */
export class Silence {
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    readonly timeoutMs: number,
    private readonly end: (error: TransportError) => void,
  ) {}

  arm(timeoutMs: number | null, reached: boolean): void {
    this.disarm();
    if (timeoutMs !== null) {
      const words = `nothing came for ${timeoutMs} ms`;
      this.#timer = setTimeout(() => this.end(new TransportError(words, { reached })), timeoutMs);
    }
  }

  /** Waits for bytes of a response. */
  await(request: Request): void {
    const limits = { call: this.timeoutMs, work: null, events: EVENTS_TIMEOUT_MS };
    this.arm(limits[request.patience], true);
  }

  disarm(): void {
    clearTimeout(this.#timer);
  }
}
