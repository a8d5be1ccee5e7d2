/** One HTTP request, before it is sent. */

import type { Source } from "./content.js";

/**
 * How long to wait for the next byte of a response. `call`: the client's timeout. `work`: for
 * ever, since the daemon answers when the code has ended, and sees to that itself. `events`:
 * several of the stream's keep-alives.
 */
export type Patience = "call" | "work" | "events";

export interface Request {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query, percent-encoded. */
  readonly target: string;
  readonly content: Source | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether sending it twice has the effect of sending it once. */
  readonly idempotent: boolean;
  readonly patience: Patience;
}

const PLAIN = { content: null, headers: {}, idempotent: true, patience: "call" } as const;

/** Returns a path below `/v1`; slashes within a segment are escaped. */
export function path(...segments: string[]): string {
  return `/v1/${segments.map(segment).join("/")}`;
}

export function filePath(sessionId: string, name: string): string {
  const parts = named(name).split("/");
  if (name.startsWith("/")) {
    // Its first slash is escaped: proxies merge two that follow each other.
    parts.splice(0, 2, `/${parts[1]}`);
  }
  return path("sessions", sessionId, "files", ...parts);
}

function segment(text: string): string {
  // URL parsers resolve them, also percent-encoded: "files/../x" would be another route.
  if (text === "." || text === "..") {
    throw new TypeError('"." and ".." can not be part of a path');
  }
  return encodeURIComponent(text);
}

function named(name: string): string {
  if (!name) {
    throw new TypeError("a file has a name");
  }
  return name;
}

/** Returns a GET request. Query parameters that are undefined or null are left out. */
export function get(
  where: string,
  query: Record<string, string | number | null | undefined> = {},
): Request {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) {
      parameters.set(name, `${value}`);
    }
  }
  const target = `${parameters}` ? `${where}?${parameters}` : where;
  return { ...PLAIN, method: "GET", target };
}

export function put(target: string, content: Source, mimeType: string): Request {
  return { ...PLAIN, method: "PUT", target, content, headers: { "Content-Type": mimeType } };
}

export function makeDirectory(target: string): Request {
  return { ...PLAIN, method: "PUT", target: `${target}?directory=true` };
}

export function patch(target: string, content: Source): Request {
  const headers = { "Content-Type": "application/json" };
  return { ...PLAIN, method: "PATCH", target, content, headers, idempotent: false };
}

export function remove(target: string, patience: Patience = "call"): Request {
  return { ...PLAIN, method: "DELETE", target, patience };
}

export function post(
  target: string,
  content: Source | null,
  options: { headers?: Record<string, string>; idempotent: boolean; patience: Patience },
): Request {
  const type: Record<string, string> = content ? { "Content-Type": "application/json" } : {};
  const headers = { ...type, ...options.headers };
  return { ...PLAIN, ...options, method: "POST", target, content, headers };
}

/** Returns a request with a JSON merge patch, in which null removes. */
export function mergePatch(target: string, content: Source): Request {
  const headers = { "Content-Type": "application/merge-patch+json" };
  // The daemon may wait for the host's kernel to reclaim memory.
  return { ...PLAIN, method: "PATCH", target, content, headers, patience: "work" };
}

/** The same request, answered by a stream of events. */
export function streamed(request: Request, headers: Record<string, string> = {}): Request {
  const accepted = { ...request.headers, Accept: "text/event-stream", ...headers };
  return { ...request, headers: accepted, patience: "events" };
}
