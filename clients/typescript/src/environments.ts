/** Environments: packages that are built once, for any number of sessions. */

import type { Calls, CallOptions } from "./core/calls.js";
import { array, string } from "./core/json.js";
import { get, path, remove, streamed } from "./core/request.js";
import * as requests from "./core/requests.js";
import type { BuildInfo, BuiltEnvironment } from "./documents.js";
import { ApiError, NotFound } from "./errors.js";

/** What is built: `requirements`, or `pyproject` with or without `lock`. */
export interface BuildOptions extends CallOptions {
  /** The content of a requirements.txt. */
  requirements?: string | undefined;
  /** The content of a pyproject.toml. */
  pyproject?: string | undefined;
  /** The content of the uv.lock that goes with it. */
  lock?: string | undefined;
  /** The configured environment whose interpreter it uses. */
  base?: string | undefined;
}

/** The tenant's environments, by their names. */
export class Environments {
  /** @internal */
  constructor(private readonly calls: Calls) {}

  /** Begins a build, and returns at once: `wait` returns when it is over. */
  async build(name: string, options: BuildOptions): Promise<BuildInfo> {
    const fields = await this.calls.fetch(requests.buildEnvironment(name, options), options);
    return build(fields);
  }

  /** Returns the last build of a name when it is over. */
  async wait(name: string, options: CallOptions = {}): Promise<BuildInfo> {
    let last = await this.lastBuild(name, options);
    while (last.state === "building") {
      try {
        // The stream of its events ends with it.
        await this.calls.do(streamed(get(path("environments", name, "build"))), options);
      } catch (error) {
        // It ended before it printed anything.
        if (!(error instanceof ApiError && error.code === "result_gone")) {
          throw error;
        }
      }
      last = await this.lastBuild(name, options);
    }
    return last;
  }

  /** Returns how far the last build of a name has come. */
  async lastBuild(name: string, options: CallOptions = {}): Promise<BuildInfo> {
    return build(await this.calls.fetch(get(path("environments", name, "build")), options));
  }

  /** Returns what the last build of a name printed, when it is over. */
  async log(name: string, options: CallOptions = {}): Promise<string> {
    const where = path("environments", name, "build", "log");
    return new TextDecoder().decode(await this.calls.download(get(where), options));
  }

  async list(options: CallOptions = {}): Promise<BuiltEnvironment[]> {
    const fields = await this.calls.fetch(get(path("environments")), options);
    return array(fields, "environments", "a list of environments") as BuiltEnvironment[];
  }

  async get(name: string, options: CallOptions = {}): Promise<BuiltEnvironment> {
    const fields = await this.calls.fetch(get(path("environments", name)), options);
    string(fields, "artefact", "an environment");
    return fields as unknown as BuiltEnvironment;
  }

  /** Takes the name away; sessions keep what they have. Returns whether it existed. */
  async delete(name: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.calls.do(remove(path("environments", name), "work"), options);
      return true;
    } catch (error) {
      if (error instanceof NotFound) {
        return false;
      }
      throw error;
    }
  }
}

function build(fields: Record<string, unknown>): BuildInfo {
  string(fields, "state", "a build");
  return fields as unknown as BuildInfo;
}
