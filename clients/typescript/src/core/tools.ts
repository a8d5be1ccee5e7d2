/**
 * Functions of this process that code in a session can call: how they are declared, and answered.
 * Their arguments come from code in the session: they are what a tool's schema allows, and untrusted.
 */

import { ApiError, InvalidRequest, ToolError, TransportError } from "../errors.js";
import type { Call } from "../events.js";
import type { Calls } from "./calls.js";
import * as requests from "./requests.js";

/** Called with the arguments of a call, by name. What it returns, or resolves to, has to be JSON. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type ToolFunction = (args: any) => unknown;

/** A function, and what is said of it. */
export interface Tool {
  /** What it is called in the session: ASCII letters, digits and underscores. */
  name: string;
  /** Its docstring in the session. */
  description?: string | undefined;
  /**
   * JSON Schema of its arguments, an object; anything if not given. Code may give them by place, in the
   * order of `properties`. The daemon refuses calls that it does not allow.
   */
  parameters?: Readonly<Record<string, unknown>> | undefined;
  /** Milliseconds in which a call has to be answered. */
  timeoutMs?: number | undefined;
  /** The most calls in one execution. */
  maxCalls?: number | undefined;
  /** What is called. What it throws is raised in the session, as `vivarium.ToolError`. */
  call: ToolFunction;
}

/** Tools, or functions, which have their own names. */
export type Tools = Iterable<Tool | ToolFunction>;

/** The tools of an execution, by name. */
export class ToolSet {
  readonly #own: Tool[];
  readonly #byName: Map<string, Tool>;

  constructor(tools: Tools | undefined, others?: ToolSet) {
    if (typeof tools === "function") {
      throw new TypeError("tools is a list of functions");
    }
    this.#own = Array.from(tools ?? [], toolOf);
    this.#byName = new Map(others?.all());
    for (const tool of this.#own) {
      this.#byName.set(tool.name, tool);
    }
  }

  get isEmpty(): boolean {
    return this.#byName.size === 0;
  }

  all(): Iterable<[string, Tool]> {
    return this.#byName;
  }

  get(name: string): Tool | undefined {
    return this.#byName.get(name);
  }

  /** The tools of the request itself: its session has the others. */
  declared(): object[] | undefined {
    const declared = this.#own.map((tool) => ({
      name: tool.name,
      description: tool.description,
      parameters: tool.parameters,
      timeout_ms: tool.timeoutMs,
      max_calls: tool.maxCalls,
    }));
    return declared.length ? declared : undefined;
  }

  /** Answers a call. Nothing becomes of an answer that comes too late. */
  async answer(calls: Calls, call: Call): Promise<void> {
    const send = (answer: string) =>
      calls.do(requests.answerCall(call.session_id, call.execution_id, call.call_id, answer), {});
    try {
      try {
        await send(await this.#answerOf(call));
      } catch (error) {
        if (!(error instanceof InvalidRequest)) {
          throw error;
        }
        // Too large, or nested too deep.
        await send(failure(error));
      }
    } catch (error) {
      // The call waits no more, or ends by its time.
      if (!(error instanceof ApiError || error instanceof TransportError)) {
        throw error;
      }
    }
  }

  async #answerOf(call: Call): Promise<string> {
    const tool = this.#byName.get(call.tool);
    try {
      if (tool === undefined) {
        throw new Error(`there is no tool ${JSON.stringify(call.tool)} here`);
      }
      const result = await tool.call(call.arguments);
      // JSON has no undefined: what returns nothing returns None.
      const answer = JSON.stringify({ result: result === undefined ? null : result });
      if (answer === "{}") {
        throw new TypeError("the tool's result is no JSON");
      }
      return answer;
    } catch (error) {
      return failure(error);
    }
  }
}

const FIELDS = ["name", "description", "parameters", "timeoutMs", "maxCalls", "call"];

function toolOf(tool: Tool | ToolFunction): Tool {
  if (typeof tool !== "function") {
    // For callers without types.
    const other = Object.keys(tool).find((key) => !FIELDS.includes(key));
    if (other !== undefined) {
      throw new TypeError(`a tool has no ${JSON.stringify(other)}: it has ${FIELDS.join(", ")}`);
    }
    if (typeof tool.call !== "function") {
      throw new TypeError(`tool ${JSON.stringify(tool.name)} has no function: give { name, call }`);
    }
    return tool;
  }
  if (!tool.name) {
    throw new TypeError("a tool has a name: give { name, call }");
  }
  return { name: tool.name, call: tool };
}

/** The answer that says what went wrong. */
function failure(error: unknown): string {
  const message = error instanceof Error ? error.message : textOf(error);
  if (error instanceof ToolError) {
    try {
      return JSON.stringify({ error: { message, data: error.data } });
    } catch {
      // The data are no JSON.
    }
  }
  const name = error instanceof Error && !(error instanceof ToolError) ? `${error.name}: ` : "";
  return JSON.stringify({ error: { message: name + message } });
}

function textOf(error: unknown): string {
  try {
    return String(error);
  } catch {
    return typeof error; // It has no text.
  }
}
