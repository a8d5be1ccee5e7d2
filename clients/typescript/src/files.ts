/** Files of a session. */

/// <reference lib="esnext.disposable" preserve="true" />

import { replaceFile } from "#platform";
import type { Calls, CallOptions } from "./core/calls.js";
import { type Content, sourceOf } from "./core/content.js";
import { array, parseObject } from "./core/json.js";
import { filePath, get, makeDirectory, patch, path as pathOf, put, remove, streamed } from "./core/request.js";
import * as requests from "./core/requests.js";
import { Decoder, joined } from "./core/sse.js";
import type { FileChange, FileEvent, FileInfo, FilesWritten } from "./documents.js";
import type { Body } from "./transport/transport.js";

export interface PartOptions extends CallOptions {
  /** The first byte, from 0. */
  offset?: number | undefined;
  /** The most bytes; to the end if not given. */
  length?: number | undefined;
}

/** Files of a session. Paths are relative to the working directory, or absolute in it or `/tmp`. */
export class Files {
  readonly #calls: Calls;
  readonly #sessionId: string;

  /** @internal */
  constructor(calls: Calls, sessionId: string) {
    this.#calls = calls;
    this.#sessionId = sessionId;
  }

  /**
   * Creates or replaces a file, which appears when the upload is complete. Node streams the
   * content.
   */
  async put(path: string, content: Content, options: CallOptions = {}): Promise<FilesWritten> {
    const target = filePath(this.#sessionId, path);
    const request = put(target, sourceOf(content), "application/octet-stream");
    return (await this.#calls.fetch(request, options)) as FilesWritten;
  }

  /** Unpacks an uncompressed tar archive into `path` (default: the working directory). */
  async putTar(content: Content, path = "", options: CallOptions = {}): Promise<FilesWritten> {
    const target = path ? filePath(this.#sessionId, path) : this.#root();
    const request = put(`${target}?unpack=true`, sourceOf(content), "application/x-tar");
    return (await this.#calls.fetch(request, options)) as FilesWritten;
  }

  /**
   * Returns a file's content, or at most `length` bytes of it from byte `offset` on. Of a directory:
   * a tar archive.
   */
  async get(path: string, options: PartOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const request = requests.getFile(this.#sessionId, path, options.offset, options.length);
    return this.#calls.download(request, options);
  }

  /** Returns a file's content as UTF-8 with replacement. */
  async text(path: string, options: PartOptions = {}): Promise<string> {
    return new TextDecoder().decode(await this.get(path, options));
  }

  /**
   * Streams a file, or a directory as a tar archive, to a local path, in Node. Returns the number of
   * bytes. A file at that path is replaced only when the download is complete.
   */
  async download(path: string, target: string, options: CallOptions = {}): Promise<number> {
    const file = await this.open(path, options);
    try {
      return await replaceFile(target, file);
    } finally {
      file.close();
    }
  }

  /** Opens a file for streaming. Read it to the end, or close it. */
  async open(path: string, options: PartOptions = {}): Promise<RemoteFile> {
    const request = requests.getFile(this.#sessionId, path, options.offset, options.length);
    return new RemoteFile(await this.#calls.open(request, options));
  }

  /** Yields a directory's entries, in byte order of their paths. */
  async *list(
    path = "",
    options: CallOptions & { recursive?: boolean | undefined } = {},
  ): AsyncGenerator<FileInfo, void, undefined> {
    const query = { path: path || undefined, recursive: options.recursive ? "true" : undefined };
    let after: string | undefined;
    do {
      const page = await this.#calls.fetch(get(this.#root(), { ...query, after }), options);
      yield* array(page, "entries", "a list of files") as FileInfo[];
      after = typeof page["next"] === "string" ? page["next"] : undefined;
    } while (after !== undefined);
  }

  /**
   * Yields changes below a directory as they come, from when its first value is awaited. Ends with the
   * session; leave the loop, or abort, to end it before.
   */
  async *watch(
    path = "",
    options: CallOptions & { recursive?: boolean | undefined } = {},
  ): AsyncGenerator<FileEvent, void, undefined> {
    const where = pathOf("sessions", this.#sessionId, "watch");
    const query = {
      path: path || undefined,
      recursive: options.recursive === false ? "false" : undefined,
    };
    const body = await this.#calls.open(streamed(get(where, query)), options);
    const decoder = new Decoder();
    try {
      for (let part = await body.read(); part !== null; part = await body.read()) {
        for (const { event, data } of decoder.feed(part)) {
          const fields = parseObject(data, "an event of a file");
          yield { path: "", directory: false, ...fields, type: event } as FileEvent;
        }
      }
    } finally {
      body.close();
    }
  }

  /** Describes what is at a path. A link is not followed. */
  async stat(path: string, options: CallOptions = {}): Promise<FileInfo> {
    const request = get(filePath(this.#sessionId, path), { info: "true" });
    return (await this.#calls.fetch(request, options)) as unknown as FileInfo;
  }

  /** Makes a directory, and those it lies in, where they are missing. */
  async makeDirectory(path: string, options: CallOptions = {}): Promise<void> {
    await this.#calls.do(makeDirectory(filePath(this.#sessionId, path)), options);
  }

  /**
   * Gives a file, directory or link another path; not between the working directory and `/tmp`.
   * Missing parent directories are made, and a file at that path is replaced only with `replace`.
   */
  async move(
    path: string,
    to: string,
    options: CallOptions & { replace?: boolean | undefined } = {},
  ): Promise<FileInfo> {
    return this.#change(path, { move_to: to, replace: options.replace ?? false }, options);
  }

  /** Changes a file's or directory's permissions: octal, such as `"0644"`, at most `"0777"`. */
  async chmod(path: string, mode: string, options: CallOptions = {}): Promise<FileInfo> {
    return this.#change(path, { mode }, options);
  }

  /** Removes a file, a link (not its target), or a directory with everything in it. */
  async delete(path: string, options: CallOptions = {}): Promise<void> {
    await this.#calls.do(remove(filePath(this.#sessionId, path)), options);
  }

  async #change(path: string, change: FileChange, options: CallOptions): Promise<FileInfo> {
    const request = patch(filePath(this.#sessionId, path), sourceOf(JSON.stringify(change)));
    return (await this.#calls.fetch(request, options)) as unknown as FileInfo;
  }

  #root(): string {
    return pathOf("sessions", this.#sessionId, "files");
  }
}

/** A file of a session, streamed from beginning to end: iterate it for its bytes. */
export class RemoteFile implements AsyncIterable<Uint8Array> {
  /** Null if the daemon does not say. */
  readonly sizeBytes: number | null;
  /** The daemon's guess; null if the daemon does not say. */
  readonly mimeType: string | null;
  readonly #body: Body;

  /** @internal */
  constructor(body: Body) {
    const length = body.header("content-length");
    this.sizeBytes = length !== null && /^\d{1,15}$/.test(length) ? Number(length) : null;
    this.mimeType = body.header("content-type");
    this.#body = body;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    try {
      for (let part = await this.read(); part !== null; part = await this.read()) {
        yield part;
      }
    } finally {
      this.close();
    }
  }

  /** Returns the bytes that have arrived; null at the end. */
  read(): Promise<Uint8Array | null> {
    return this.#body.read();
  }

  /** Returns all the rest. */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array[] = [];
    for await (const part of this) {
      parts.push(part);
    }
    return joined(parts);
  }

  /** Closes the connection, at any point. */
  close(): void {
    this.#body.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}
