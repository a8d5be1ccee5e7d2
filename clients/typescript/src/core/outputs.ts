/** Puts what a stream told into a notebook's order, as the daemon does for a whole outcome. */

import type { NotebookOutput } from "../documents.js";
import type { ErrorEvent } from "../events.js";

type Content = { sizes?: Record<string, number> | undefined; mime: Record<string, string> };
type Place =
  | { kind: "stdout" | "stderr"; text: string[] }
  | { kind: "display" | "image" | "video_frame" | "result"; content: Content }
  | { kind: "error"; exception: ErrorEvent["exception"] };

const MAX_TEXTS = 10_000;
const MAX_DEPTH = 100;
const LISTS = { display: "displays", image: "images", video_frame: "video_frames" };

/** What was printed, shown, returned and raised, in order. */
export class Outputs {
  #places: Place[] = [];
  #last: { stdout?: string[]; stderr?: string[] } = {};
  #texts = 0;

  /** Adds text of a stream. */
  printed(kind: "stdout" | "stderr", text: string): void {
    const place = this.#places.at(-1);
    const last = this.#last[kind];
    if (last && (place?.kind === kind || this.#texts >= MAX_TEXTS)) {
      last.push(text);
      return;
    }
    this.#texts += 1;
    const texts = (this.#last[kind] = [text]);
    this.#places.push({ kind, text: texts });
  }

  /** Adds something. A later change of a display's content shows. */
  add(place: Place): void {
    this.#places.push(place);
  }

  /** Forgets what came so far, but no frames of animations. */
  clear(): void {
    this.#places = this.#places.filter((place) => place.kind === "video_frame");
    this.#last = {};
    this.#texts = 0;
  }

  finish(executionId: unknown): NotebookOutput[] {
    const counts = { display: 0, image: 0, video_frame: 0 };
    const outputs: object[] = [];
    for (const place of this.#places) {
      switch (place.kind) {
        case "stdout":
        case "stderr": {
          const text = place.text.join("");
          if (text) {
            outputs.push({ output_type: "stream", name: place.kind, text });
          }
          break;
        }
        case "result": {
          const execution_count = /^\d+$/.test(String(executionId)) ? Number(executionId) : null;
          const shown = shownOf("result", place.content);
          outputs.push({ output_type: "execute_result", execution_count, ...shown });
          break;
        }
        case "error": {
          const { type, message, traceback } = place.exception;
          const lines = traceback.replace(/\n$/, "").split(/\r?\n/);
          outputs.push({ output_type: "error", ename: type, evalue: message, traceback: lines });
          break;
        }
        default: {
          const part = `${LISTS[place.kind]}/${counts[place.kind]++}`;
          outputs.push({ output_type: "display_data", ...shownOf(part, place.content) });
        }
      }
    }
    return outputs as NotebookOutput[];
  }
}

function shownOf(part: string, { sizes, mime }: Content): object {
  const data = Object.fromEntries(
    Object.entries(mime).map(([kind, text]) => [kind, representation(kind, text)]),
  );
  return { metadata: { vivarium: { part, sizes: sizes ?? {} } }, data };
}

/** JSON as it is, unless some parser could fail for it. */
function representation(kind: string, text: string): unknown {
  if (!/^application\/(json|.*\+json)$/.test(kind) || /[0-9]{4001}/.test(text)) {
    return text;
  }
  try {
    const value: unknown = JSON.parse(text);
    return isPlain(value, MAX_DEPTH) ? value : text;
  } catch {
    return text;
  }
}

function isPlain(value: unknown, depth: number): boolean {
  if (typeof value === "string") {
    return !/\p{Surrogate}/u.test(value);
  }
  if (typeof value === "number") {
    return Number.isFinite(value);
  }
  if (typeof value !== "object" || value === null) {
    return true;
  }
  return depth > 0 && Object.entries(value).flat().every((one) => isPlain(one, depth - 1));
}
