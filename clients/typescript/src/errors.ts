/**
 * Errors, of three kinds: the daemon was not reached (`TransportError`), it refused (`ApiError`),
 * or the code did not run to its end (`ExecutionError`, thrown only by `Outcome.raiseForStatus`).
 */

import type { ExceptionInfo } from "./documents.js";
import type { Outcome } from "./outcome.js";

/** Any error of this package. */
export class VivariumError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The daemon could not be reached, or the connection broke. */
export class TransportError extends VivariumError {
  /** Whether the request may have reached the daemon and been carried out. */
  readonly reached: boolean;

  constructor(message: string, options: ErrorOptions & { reached?: boolean } = {}) {
    super(message, options);
    this.reached = options.reached ?? true;
  }
}

/** The response did not come from a Vivarium daemon. */
export class UnexpectedAnswer extends VivariumError {}

/** The daemon refused a request (RFC 9457). */
export class ApiError extends VivariumError {
  /** The field at fault, such as `limits.max_procs`. */
  readonly field: string | null;
  /** The tenant's quota that is used up, such as `execution_rate`. */
  readonly quota: string | null;
  /** What an operator can do about it. */
  readonly fix: string | null;

  constructor(
    /** The HTTP status. */
    readonly status: number,
    /** The stable error code, such as `unknown_session`. */
    readonly code: string,
    /** The explanation, for people. */
    readonly detail: string,
    /** The whole problem document; empty if the response had none. */
    readonly problem: Readonly<Record<string, unknown>>,
    /** Seconds after which to retry, if the daemon says so. */
    readonly retryAfterSecs: number | null = null,
  ) {
    super(`${detail} (${status} ${code})`);
    this.field = typeof problem["field"] === "string" ? problem["field"] : null;
    this.quota = typeof problem["quota"] === "string" ? problem["quota"] : null;
    this.fix = typeof problem["fix"] === "string" ? problem["fix"] : null;
  }
}

/** The request is invalid (400, 405, 406, 413, 415, 416, 422). */
export class InvalidRequest extends ApiError {}

/** The token is missing or not valid (401). */
export class Unauthenticated extends ApiError {}

/** The daemon does not take requests with this Host or Origin (403). */
export class Forbidden extends ApiError {}

/** No such session, context, checkpoint, execution, file or route (404). */
export class NotFound extends ApiError {}

/** The id or name is taken, the session is busy, or something else is in the way (409). */
export class Conflict extends ApiError {}

/** The events or the result are no longer kept (410). The outcome may still be. */
export class EventsGone extends ApiError {}

/** Something is used up (429); see `retryAfterSecs`, and `quota` if it is a quota of the tenant. */
export class QuotaExceeded extends ApiError {}

/** The daemon or a proxy failed (5xx). */
export class ServerError extends ApiError {}

/** The daemon takes no work for now (503); see `retryAfterSecs`. */
export class Unavailable extends ServerError {}

/** The daemon is draining: it takes no new work until it is started again (503). */
export class Draining extends Unavailable {}

/**
 * Thrown by a tool's function: code in the session gets `vivarium.ToolError` with the same message and
 * data.
 */
export class ToolError extends Error {
  constructor(
    message: string,
    /** More about it, as JSON. */
    readonly data?: unknown,
  ) {
    super(message);
    this.name = "ToolError";
  }
}

/** The code did not run to its end. */
export class ExecutionError extends VivariumError {
  constructor(
    message: string,
    /** The outcome that is not ok. */
    readonly outcome: Outcome,
  ) {
    super(message);
  }
}

/** The code raised an exception or did not compile. The message ends with the traceback. */
export class CodeError extends ExecutionError {
  constructor(
    outcome: Outcome,
    /** Type, message and traceback. */
    readonly exception: ExceptionInfo,
  ) {
    const first = [exception.type, exception.message].filter(Boolean).join(": ");
    super(`${first}\n${exception.traceback}`.trimEnd(), outcome);
  }
}

/** A command exited with a code other than 0. */
export class CommandFailed extends ExecutionError {
  constructor(
    outcome: Outcome,
    readonly exitCode: number,
  ) {
    const last = outcome.stderr.trimEnd().split("\n").at(-1);
    super(last ? `exit code ${exitCode}: ${last}` : `exit code ${exitCode}`, outcome);
  }
}

/** The code exceeded its time or CPU time. */
export class TimedOut extends ExecutionError {}

/** A client interrupted the code. */
export class Interrupted extends ExecutionError {}

/** The kernel or the command died or was killed; `outcome.cause` says why. */
export class Killed extends ExecutionError {}

/** The code never ran. */
export class Rejected extends ExecutionError {}

/** A declared output has no content: it is missing, too large, or not a regular file. */
export class OutputFileError extends VivariumError {}
