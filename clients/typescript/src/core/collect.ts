/** Turns a stream's messages into events, and the events into an outcome. */

import { UnexpectedAnswer } from "../errors.js";
import type { Call, CallEnded, Display, Event, ErrorEvent, Result } from "../events.js";
import { Outcome } from "../outcome.js";
import { object, parseObject, string } from "./json.js";
import { Outputs } from "./outputs.js";
import type { Message } from "./sse.js";

type Shown = { id?: string; sizes: Display["sizes"]; mime: Display["mime"] };

/** Reads messages in order, and keeps what the outcome needs. */
export class Collector {
  readonly #text = { stdout: [] as string[], stderr: [] as string[] };
  readonly #pictures = {
    image: [] as { mime_type: string; size_bytes: number | undefined; data: string }[],
    video_frame: [] as { mime_type: string; size_bytes: number | undefined; data: string }[],
  };
  readonly #outputs = new Outputs();
  #displays: Shown[] = [];
  #result: Result["value"] | null = null;
  #exception: ErrorEvent["exception"] | null = null;

  event(number: number, message: Message): Event {
    const what = `event ${message.event}`;
    const read = () => parseObject(message.data, what);
    switch (message.event) {
      case "awaiting_approval": {
        const fields = read();
        const execution_id = string(fields, "execution_id", what);
        const session_id = string(fields, "session_id", what);
        const approval_id = string(fields, "approval_id", what);
        const expires_at = string(fields, "expires_at", what);
        const ids = { execution_id, session_id, approval_id };
        return { ...fields, type: "awaiting_approval", number, ...ids, expires_at };
      }
      case "started": {
        const fields = read();
        const execution_id = string(fields, "execution_id", what);
        const session_id = string(fields, "session_id", what);
        return { ...fields, type: "started", number, execution_id, session_id };
      }
      case "stdout":
      case "stderr": {
        const fields = read();
        const text = string(fields, "text", what);
        this.#text[message.event].push(text);
        this.#outputs.printed(message.event, text);
        return { ...fields, type: message.event, number, text };
      }
      case "display": {
        const fields = read();
        const kind = string(fields, "kind", what) as Display["kind"];
        const mime = object(fields["mime"], `${what}'s mime`) as Display["mime"];
        const sizes = object(fields["sizes"] ?? {}, `${what}'s sizes`) as Display["sizes"];
        const id = typeof fields["id"] === "string" ? { id: fields["id"] } : {};
        const shown = { ...id, sizes, mime };
        this.#show(kind, { ...shown });
        return { type: "display", number, kind, ...shown };
      }
      case "result": {
        const fields = read();
        string(fields, "repr", what);
        this.#result = fields as Result["value"];
        const { sizes, mime } = this.#result;
        this.#outputs.add({ kind: "result", content: { sizes, mime: mime ?? {} } });
        return { type: "result", number, value: this.#result };
      }
      case "error": {
        const fields = read();
        for (const name of ["type", "message", "traceback"]) {
          string(fields, name, what);
        }
        this.#exception = fields as ErrorEvent["exception"];
        this.#outputs.add({ kind: "error", exception: this.#exception });
        return { type: "error", number, exception: this.#exception };
      }
      case "call": {
        const fields = read();
        for (const name of ["execution_id", "session_id", "call_id", "tool", "expires_at"]) {
          string(fields, name, what);
        }
        object(fields["arguments"], `${what}'s arguments`);
        return { ...(fields as unknown as Call), type: "call", number };
      }
      case "call_ended": {
        const fields = read();
        string(fields, "call_id", what);
        return { ...(fields as unknown as CallEnded), type: "call_ended", number };
      }
      case "done":
        return { type: "done", number, outcome: this.#outcome(read()) };
      default:
        return { type: "other", number, kind: message.event, data: message.data };
    }
  }

  #show(kind: Display["kind"], shown: Shown): void {
    if (kind === "image" || kind === "video_frame") {
      // Without content there are sizes.
      for (const mime_type of Object.keys({ ...shown.sizes, ...shown.mime })) {
        const [size_bytes, data] = [shown.sizes?.[mime_type], shown.mime[mime_type] ?? ""];
        this.#pictures[kind].push({ mime_type, size_bytes, data });
        const sizes = size_bytes === undefined ? {} : { [mime_type]: size_bytes };
        const mime = data === "" ? {} : { [mime_type]: data };
        this.#outputs.add({ kind, content: { sizes, mime } });
      }
    } else if (kind === "clear") {
      this.#displays = [];
      this.#pictures.image = [];
      this.#outputs.clear();
    } else if (kind === "update") {
      for (const display of this.#displays.filter((one) => one.id === shown.id)) {
        display.mime = shown.mime;
        display.sizes = shown.sizes;
      }
    } else if (kind === "display") {
      this.#displays.push(shown);
      this.#outputs.add({ kind: "display", content: shown });
    }
  }

  /** `done` is the outcome without what the other events have told. */
  #outcome(fields: object): Outcome {
    const [stdout, stderr] = [this.#text.stdout.join(""), this.#text.stderr.join("")];
    return new Outcome({
      ...fields,
      stdout,
      stdout_bytes: bytesOf(stdout),
      stderr,
      stderr_bytes: bytesOf(stderr),
      displays: this.#displays,
      images: this.#pictures.image,
      video_frames: this.#pictures.video_frame,
      result: this.#result,
      exception: this.#exception,
      outputs: this.#outputs.finish(Reflect.get(fields, "execution_id")),
    });
  }
}

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

export function eventNumber(message: Message): number {
  if (!/^\d{1,15}$/.test(message.id)) {
    const shown = JSON.stringify(message.id.slice(0, 40));
    throw new UnexpectedAnswer(`${shown} is no number of an event`);
  }
  return Number(message.id);
}
