/** Homes and volumes: files that outlive sessions. */

import type { Calls, CallOptions } from "./core/calls.js";
import { array, string } from "./core/json.js";
import { get, path, remove } from "./core/request.js";
import * as requests from "./core/requests.js";
import type { FileInfo, HomeInfo, VolumeInfo } from "./documents.js";
import { NotFound } from "./errors.js";

class Stored {
  /** @internal */
  constructor(
    protected readonly calls: Calls,
    protected readonly kind: "homes" | "volumes",
  ) {}

  /**
   * Deletes one that no session has, with all its files. Returns whether it existed.
   *
   * @throws Conflict if a session has it.
   */
  delete(name: string, options: CallOptions = {}): Promise<boolean> {
    return this.#delete([name], options);
  }

  /** Yields a directory's entries, in byte order of their paths. No session has to run. */
  async *files(
    name: string,
    directory = "",
    options: CallOptions & { recursive?: boolean | undefined } = {},
  ): AsyncGenerator<FileInfo, void, undefined> {
    const where = path(this.kind, name, "files");
    const recursive = options.recursive ? "true" : undefined;
    let after: string | undefined;
    do {
      const query = { path: directory || undefined, recursive, after };
      const page = await this.calls.fetch(get(where, query), options);
      yield* array(page, "entries", "a list of files") as FileInfo[];
      after = typeof page["next"] === "string" ? page["next"] : undefined;
    } while (after !== undefined);
  }

  /** Returns a file's content. No session has to run. */
  read(name: string, file: string, options: CallOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.calls.download(get(path(this.kind, name, "files", ...file.split("/"))), options);
  }

  /** Deletes a file, or a directory with all that is in it. Returns whether it existed. */
  deleteFile(name: string, file: string, options: CallOptions = {}): Promise<boolean> {
    return this.#delete([name, "files", ...file.split("/")], options);
  }

  async #delete(parts: string[], options: CallOptions): Promise<boolean> {
    try {
      await this.calls.do(remove(path(this.kind, ...parts), "work"), options);
      return true;
    } catch (error) {
      if (error instanceof NotFound) {
        return false;
      }
      throw error;
    }
  }
}

/** Homes, by the id of their sessions; `@tenant` is that of all the tenant's. */
export class Homes extends Stored {
  /** @internal */
  constructor(calls: Calls) {
    super(calls, "homes");
  }

  async list(options: CallOptions = {}): Promise<HomeInfo[]> {
    const fields = await this.calls.fetch(get(path("homes")), options);
    return array(fields, "homes", "a list of homes") as HomeInfo[];
  }

  async get(id: string, options: CallOptions = {}): Promise<HomeInfo> {
    const fields = await this.calls.fetch(get(path("homes", id)), options);
    string(fields, "id", "a home");
    return fields as unknown as HomeInfo;
  }
}

/** Volumes, by their names. */
export class Volumes extends Stored {
  /** @internal */
  constructor(calls: Calls) {
    super(calls, "volumes");
  }

  /** Makes a volume: a name is 1 to 64 of `A-Z a-z 0-9 _ -`. */
  async create(name: string, options: CallOptions = {}): Promise<VolumeInfo> {
    const fields = await this.calls.fetch(requests.createVolume(name), options);
    string(fields, "name", "a volume");
    return fields as unknown as VolumeInfo;
  }

  async list(options: CallOptions = {}): Promise<VolumeInfo[]> {
    const fields = await this.calls.fetch(get(path("volumes")), options);
    return array(fields, "volumes", "a list of volumes") as VolumeInfo[];
  }

  async get(name: string, options: CallOptions = {}): Promise<VolumeInfo> {
    const fields = await this.calls.fetch(get(path("volumes", name)), options);
    string(fields, "name", "a volume");
    return fields as unknown as VolumeInfo;
  }
}
