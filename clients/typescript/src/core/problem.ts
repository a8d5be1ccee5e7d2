/** Turns a problem (RFC 9457) into an error. */

import * as errors from "../errors.js";

const BY_STATUS: Readonly<Record<number, typeof errors.ApiError>> = {
  400: errors.InvalidRequest,
  401: errors.Unauthenticated,
  403: errors.Forbidden,
  404: errors.NotFound,
  405: errors.InvalidRequest,
  406: errors.InvalidRequest,
  409: errors.Conflict,
  410: errors.EventsGone,
  413: errors.InvalidRequest,
  415: errors.InvalidRequest,
  416: errors.InvalidRequest,
  422: errors.InvalidRequest,
  429: errors.QuotaExceeded,
  503: errors.Unavailable,
};

/** Returns the error for an unsuccessful response, with or without a problem. */
export function apiError(status: number, retryAfter: string | null, body: string): errors.ApiError {
  const problem = problemOf(body);
  const code = typeof problem["code"] === "string" ? problem["code"] : `http_${status}`;
  const detail =
    typeof problem["detail"] === "string"
      ? problem["detail"]
      : body.slice(0, 200).trim() || "no reason given";
  const other = status >= 500 ? errors.ServerError : errors.ApiError;
  const Kind = code === "draining" ? errors.Draining : (BY_STATUS[status] ?? other);
  return new Kind(status, code, detail, problem, retryAfterSecs(retryAfter));
}

function problemOf(body: string): Record<string, unknown> {
  let problem: unknown;
  try {
    problem = JSON.parse(body);
  } catch {
    return {};
  }
  const isObject = typeof problem === "object" && problem !== null && !Array.isArray(problem);
  return isObject ? (problem as Record<string, unknown>) : {};
}

/** Parses the number form (RFC 9110, 10.2.3), which is all the daemon sends. */
function retryAfterSecs(header: string | null): number | null {
  return header !== null && /^\d{1,9}(\.\d+)?$/.test(header.trim()) ? Number(header) : null;
}
