/**
 * Decodes `text/event-stream` (HTML standard, "Server-sent events"), split anywhere. Fields other
 * than `id`, `event` and `data` are ignored.
 */

import { UnexpectedAnswer } from "../errors.js";

/** The most bytes of one event, so that a stream without line ends does not take all memory. */
export const MAX_EVENT_BYTES = 256 << 20;

const LF = 0x0a;
const CR = 0x0d;

/** One event. */
export interface Message {
  /** The last id seen, or empty. */
  readonly id: string;
  /** The type; `message` by default. */
  readonly event: string;
  readonly data: string;
}

/** Takes a stream piece by piece and yields complete messages. */
export class Decoder {
  readonly #text = new TextDecoder("utf-8", { ignoreBOM: true });
  readonly #maxBytes: number;
  // An unfinished line is kept in parts, so that a long line in many chunks costs its length once.
  #parts: Uint8Array[] = [];
  #sizeBytes = 0;
  #endsInCr = false;
  #isFirstLine = true;
  #id = "";
  #event = "";
  #data: string[] = [];

  constructor(maxBytes = MAX_EVENT_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** Takes the next bytes and yields each message once. Iterate it to the end. */
  *feed(chunk: Uint8Array): Generator<Message, void, undefined> {
    for (const line of this.#lines(chunk)) {
      if (line) {
        this.#field(line);
        continue;
      }
      const [event, data] = [this.#event, this.#data];
      this.#event = "";
      this.#data = [];
      this.#sizeBytes = 0;
      if (data.length) {
        yield { id: this.#id, event: event || "message", data: data.join("\n") };
      }
    }
  }

  *#lines(chunk: Uint8Array): Generator<string, void, undefined> {
    let begin = this.#endsInCr && chunk[0] === LF ? 1 : 0;
    if (chunk.length > 0) {
      this.#endsInCr = chunk[chunk.length - 1] === CR;
    }
    let [lf, cr] = [begin - 1, begin - 1];
    while (begin < chunk.length) {
      // Each is searched for again only when it has been passed.
      lf = lf < begin ? found(chunk, LF, begin) : lf;
      cr = cr < begin ? found(chunk, CR, begin) : cr;
      const end = Math.min(lf, cr);
      this.#keep(chunk.subarray(begin, end));
      if (end === chunk.length) {
        return;
      }
      begin = cr + 1 === lf ? lf + 1 : end + 1;
      yield this.#line();
    }
  }

  #keep(part: Uint8Array): void {
    this.#sizeBytes += part.length;
    if (this.#sizeBytes > this.#maxBytes) {
      throw new UnexpectedAnswer(`an event of more than ${this.#maxBytes} bytes`);
    }
    if (part.length > 0) {
      this.#parts.push(part);
    }
  }

  #line(): string {
    const line = this.#text.decode(joined(this.#parts));
    this.#parts = [];
    const isMarked = this.#isFirstLine && line.startsWith("\ufeff");
    this.#isFirstLine = false;
    return isMarked ? line.slice(1) : line;
  }

  #field(line: string): void {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (name === "data") {
      this.#data.push(value);
    } else if (name === "event") {
      this.#event = value;
    } else if (name === "id" && !value.includes("\0")) {
      this.#id = value;
    }
  }
}

function found(chunk: Uint8Array, byte: number, from: number): number {
  const index = chunk.indexOf(byte, from);
  return index < 0 ? chunk.length : index;
}

/** Puts parts together. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let offset = 0;
  for (const part of parts) {
    whole.set(part, offset);
    offset += part.length;
  }
  return whole;
}
