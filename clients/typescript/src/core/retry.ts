/**
 * Decides whether and when a failed request is retried: only if that cannot carry it out twice,
 * because it never reached the daemon, was refused, or is idempotent.
 */

import { ApiError, TransportError } from "../errors.js";
import type { Request } from "./request.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5000;

// A daemon that asks for more than this is not waited for: the caller knows better what to do.
const LONGEST_RETRY_AFTER_SECS = 60;

/** The tries of one call. */
export class Retries {
  #made = 0;

  constructor(readonly max: number) {}

  /** Forgets earlier failures, after progress. */
  beginAnew(): void {
    this.#made = 0;
  }

  /** Returns the pause before the next try; null if there is none. */
  pauseMs(request: Request, error: unknown): number | null {
    const resendable = request.content === null || request.content.repeatable;
    const pause = this.#made < this.max && resendable ? this.#pauseMs(request, error) : null;
    if (pause !== null) {
      this.#made += 1;
    }
    return pause;
  }

  #pauseMs(request: Request, error: unknown): number | null {
    const longest = Math.min(FIRST_PAUSE_MS * 2 ** this.#made, LONGEST_PAUSE_MS);
    const backoff = longest * (0.5 + Math.random() / 2);
    if (error instanceof TransportError) {
      return request.idempotent || !error.reached ? backoff : null;
    }
    if (error instanceof ApiError && error.code === "stdin_full") {
      // Some of the input may have been written.
      return null;
    }
    if (error instanceof ApiError && (error.status === 429 || error.status === 503)) {
      const asked = error.retryAfterSecs;
      if (asked === null) {
        return backoff;
      }
      return asked <= LONGEST_RETRY_AFTER_SECS ? asked * 1000 : null;
    }
    return null;
  }
}

/** Waiting, which tests replace. */
export const clock = {
  /** Waits; throws the signal's reason if it aborts meanwhile. */
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const abort = () => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", abort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", abort, { once: true });
    });
  },
};
