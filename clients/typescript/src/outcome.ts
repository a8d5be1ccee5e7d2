/** The outcome of an execution. All its texts and data come from tenant code: nothing here runs,
 * renders or trusts them. */

import { decodeBase64 } from "./core/base64.js";
import type { ExecutionInfo, OutcomeDocument, OutputFile, Value } from "./documents.js";
import * as errors from "./errors.js";

/** The document's fields, as the HTTP API names them: `status`, `stdout`, `duration_ms` … */
export interface Outcome extends Readonly<OutcomeDocument> {
  /**
   * Whether variables were lost, and the session was rolled back to its last checkpoint: `state` is
   * `preserved` then.
   */
  readonly rolled_back: boolean;
}

/** The outcome of an execution. An exception of the code is an outcome like any other. */
export class Outcome {
  /** Takes what a daemon sent. */
  constructor(document: object) {
    for (const [name, value] of Object.entries({ ...NOTHING, ...document })) {
      // A field of a later daemon must not take the place of a method.
      if (!(name in Outcome.prototype)) {
        Object.defineProperty(this, name, { value, enumerable: true });
      }
    }
    if (typeof this.status !== "string") {
      throw new errors.UnexpectedAnswer("an outcome has no status");
    }
    for (const [name, nothing] of Object.entries(NOTHING)) {
      const value: unknown = Reflect.get(this, name);
      if (typeof value !== typeof nothing || Array.isArray(value) !== Array.isArray(nothing)) {
        throw new errors.UnexpectedAnswer(`an outcome's ${name} has another type`);
      }
    }
  }

  /** Whether the code ran to its end. */
  get ok(): boolean {
    return this.status === "ok";
  }

  /** The same as `stdout`. */
  get text(): string {
    return this.stdout;
  }

  /** The value of the final expression (`result` in the API); null if there is none. */
  get value(): Value | null {
    return this.result ?? null;
  }

  /**
   * Returns the content of a file that was requested in `outputs`. Throws `OutputFileError` if
   * there is none.
   */
  fileBytes(name: string): Uint8Array<ArrayBuffer> {
    const file: OutputFile | undefined = this.files.find((one) => one.name === name);
    if (typeof file?.text === "string") {
      return new TextEncoder().encode(file.text);
    }
    if (typeof file?.data === "string") {
      return decodeBase64(file.data);
    }
    const reason = file ? (file.error ?? "the daemon sent no content") : "it was not requested";
    throw new errors.OutputFileError(`${name}: ${reason}`);
  }

  /** Returns the same as UTF-8 with replacement. */
  fileText(name: string): string {
    return new TextDecoder().decode(this.fileBytes(name));
  }

  /**
   * Returns itself if ok. Throws an `ExecutionError` if the code did not run to its end; the
   * subclass says how it ended.
   */
  raiseForStatus(): this {
    if (this.ok) {
      return this;
    }
    if (this.status === "error" && this.exception) {
      throw new errors.CodeError(this, this.exception);
    }
    if (this.status === "error" && typeof this.exit_code === "number") {
      throw new errors.CommandFailed(this, this.exit_code);
    }
    const message = [this.status, this.cause, this.detail].filter(Boolean).join(": ");
    throw new (kindOf(this.status))(message, this);
  }
}

/** The state of an execution. */
export interface Execution extends Omit<ExecutionInfo, "outcome"> {
  /** Null until done. Of a streamed execution it may have only part of stdout and stderr. */
  outcome: Outcome | null;
}

// What a field has that was not sent.
const NOTHING = {
  execution_id: "",
  session_id: "",
  detail: "",
  state: "",
  rolled_back: false,
  session_created: false,
  stdout: "",
  stdout_truncated: false,
  stderr: "",
  stderr_truncated: false,
  displays: [],
  images: [],
  video_frames: [],
  files: [],
  files_changed: [],
  files_changed_more: false,
};

function kindOf(status: string): typeof errors.ExecutionError {
  switch (status) {
    case "timed_out":
      return errors.TimedOut;
    case "interrupted":
      return errors.Interrupted;
    case "killed":
      return errors.Killed;
    case "rejected":
      return errors.Rejected;
    default:
      return errors.ExecutionError;
  }
}
