/** The events of a streamed execution. `number` counts from 1 within the execution. */

import type { components } from "./openapi.js";
import type { ExceptionInfo, Value } from "./documents.js";
import type { Outcome } from "./outcome.js";

type Schemas = components["schemas"];

interface Numbered<Type extends string> {
  readonly type: Type;
  readonly number: number;
}

/** The execution waits until somebody allows it. The first event, if it does. */
export type AwaitingApproval = Numbered<"awaiting_approval"> &
  Readonly<Schemas["AwaitingApprovalEvent"]>;

/** The execution has started. The first event, if nobody has to allow it. */
export type Started = Numbered<"started"> & Readonly<Schemas["StartedEvent"]>;

/** Text printed to stdout: part of a line, or several lines. */
export type Stdout = Numbered<"stdout"> & Readonly<Schemas["OutputEvent"]>;

/** Text printed to stderr: part of a line, or several lines. */
export type Stderr = Numbered<"stderr"> & Readonly<Schemas["OutputEvent"]>;

/**
 * A display, figure or animation frame, by `kind`. `display`: show it. `update`: replace the
 * display with this id. `clear`: drop everything shown so far. `image`: a figure. `video_frame`: a
 * frame of an animation.
 */
export type Display = Numbered<"display"> & Readonly<Schemas["DisplayEvent"]>;

/** The value of the final expression. */
export interface Result extends Numbered<"result"> {
  readonly value: Value;
}

/** An uncaught exception. */
export interface ErrorEvent extends Numbered<"error"> {
  readonly exception: ExceptionInfo;
}

/**
 * Code has called a tool, and waits. A stream with `tools` answers by itself. Its arguments are
 * untrusted.
 */
export type Call = Numbered<"call"> & Readonly<Schemas["CallEvent"]>;

/** A call waits no more. */
export type CallEnded = Numbered<"call_ended"> & Readonly<Schemas["CallEndedEvent"]>;

/** The execution is over, with all that earlier events carried. The last event. */
export interface Done extends Numbered<"done"> {
  readonly outcome: Outcome;
}

/** An event of a kind that a later daemon defines. */
export interface OtherEvent extends Numbered<"other"> {
  /** The daemon's name of the kind. */
  readonly kind: string;
  /** The event's data, as it came. */
  readonly data: string;
}

/** Any event. */
export type Event =
  | AwaitingApproval
  | Started
  | Stdout
  | Stderr
  | Display
  | Result
  | ErrorEvent
  | Call
  | CallEnded
  | Done
  | OtherEvent;
