/** A daemon's address: `http://HOST:PORT`, `https://…` through your own proxy, or `unix:/PATH`. */

export const DEFAULT_URL = "http://127.0.0.1:8470";

const PORT = 8470;

export interface Address {
  /** As it was given. */
  readonly url: string;
  /** The prefix of every request's target. */
  readonly base: string;
  /** Path of the Unix socket, if it is one. */
  readonly socketPath: string | null;
  readonly token: string | null;
}

/** Uses the arguments, else the environment variables, else the default. */
export function addressOf(url?: string, token?: string): Address {
  const given = url ?? (variable("VIVARIUM_URL") || DEFAULT_URL);
  const authorised = token ?? (variable("VIVARIUM_TOKEN") || null);
  const socketPath = socketPathOf(given);
  const base = socketPath === null ? baseOf(given) : "http://localhost";
  return { url: given, base, socketPath, token: authorised };
}

function variable(name: string): string | undefined {
  return typeof process === "object" ? process.env?.[name] : undefined;
}

function socketPathOf(url: string): string | null {
  if (!url.startsWith("unix:")) {
    return null;
  }
  // unix:/PATH and unix:///PATH are the same path.
  const path = url.slice("unix:".length).replace(/^\/\/(?=\/)/, "");
  if (!/^\/+[^/\0][^\0]*$/.test(path)) {
    throw new TypeError(`${JSON.stringify(url)} has no absolute path of a Unix socket`);
  }
  return path;
}

function baseOf(url: string): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw notADaemon(url);
  }
  const { protocol, username, password, search, hash, hostname, pathname } = parsed;
  const isKnown = protocol === "http:" || protocol === "https:";
  if (!isKnown || username || password || search || hash) {
    throw notADaemon(url);
  }
  // An explicit default port is not in `port`, and is meant.
  const isExplicit = /^https?:\/\/[^/]*:\d+(\/|$)/i.test(url);
  let port = parsed.port;
  if (!port && protocol === "http:") {
    port = isExplicit ? "80" : `${PORT}`;
  }
  return `${protocol}//${hostname}${port && `:${port}`}${pathname.replace(/\/+$/, "")}`;
}

// The URL may hold a password: it is not repeated.
function notADaemon(url: string): TypeError {
  const shown = url.includes("@") ? "a URL with credentials" : JSON.stringify(url);
  return new TypeError(`${shown} is no daemon's URL: http://HOST:PORT or unix:/PATH`);
}
