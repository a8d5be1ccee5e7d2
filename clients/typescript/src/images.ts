/** Images of suspended sessions. */

import { replaceFile } from "#platform";
import type { Calls, CallOptions } from "./core/calls.js";
import type { Content } from "./core/content.js";
import * as images from "./core/images.js";
import { array, string } from "./core/json.js";
import { get, path, remove } from "./core/request.js";
import type { StoredImage } from "./documents.js";
import { NotFound } from "./errors.js";
import { RemoteFile } from "./files.js";
import { Session } from "./session.js";

export interface ExportOptions extends CallOptions {
  /** The name of a checkpoint, which is exported instead; the session need not be suspended then. */
  checkpoint?: string | undefined;
}

/** Images of the tenant's suspended sessions, by session id. No call resumes one. */
export class Images {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Yields the images, ordered by id. */
  async *list(options: CallOptions = {}): AsyncGenerator<StoredImage, void, undefined> {
    let after: string | undefined;
    do {
      const page = await this.#calls.fetch(get(path("images"), { after }), options);
      yield* array(page, "images", "a list of images") as StoredImage[];
      after = typeof page["next"] === "string" ? page["next"] : undefined;
    } while (after !== undefined);
  }

  /**
   * Returns what there is of a suspended session on disk. Throws `Conflict` if the session is not
   * suspended (`not_suspended`).
   */
  async get(id: string, options: CallOptions = {}): Promise<StoredImage> {
    const fields = await this.#calls.fetch(get(path("images", id)), options);
    string(fields, "session_id", "an image");
    return fields as unknown as StoredImage;
  }

  /**
   * Deletes an image, and so its session. Returns whether there was such a session. Throws `Conflict`
   * if the session is not suspended (`not_suspended`), and stays.
   */
  async delete(id: string, options: CallOptions = {}): Promise<boolean> {
    try {
      await this.#calls.do(remove(path("images", id), "work"), options);
      return true;
    } catch (error) {
      if (error instanceof NotFound) {
        return false;
      }
      throw error;
    }
  }

  /**
   * Streams an image to a local path, in Node. Returns the number of bytes. It is encrypted, and for
   * daemons that have the same key. The session stays. A file at that path is replaced only when the
   * image is complete. Throws `Conflict` if the session is not suspended (`not_suspended`).
   */
  async export(id: string, target: string, options: ExportOptions = {}): Promise<number> {
    const image = await this.open(id, options);
    try {
      return await replaceFile(target, image);
    } finally {
      image.close();
    }
  }

  /** Opens an image for streaming, as `export` does. Read it to the end, or close it. */
  async open(id: string, options: ExportOptions = {}): Promise<RemoteFile> {
    const request = images.exportImage(id, options.checkpoint);
    return new RemoteFile(await this.#calls.open(request, options));
  }

  /**
   * Makes a suspended session of an image that was exported. Node streams the image. `id`: the one
   * that the session had where it was exported if not given. `await using` deletes it at the end of its
   * block. Throws `Conflict` if the id is taken (`session_exists`), or the image is not whole, of
   * another key or of another tenant (`image_failed`), `InvalidRequest` if the daemon does not have its
   * environment, and `QuotaExceeded` if the tenant has as many images, or bytes of them, as it may.
   */
  async import(
    image: Exclude<Content, string>,
    options: CallOptions & { id?: string | undefined } = {},
  ): Promise<Session> {
    const fields = await this.#calls.fetch(images.importImage(image, options.id), options);
    return new Session(this.#calls, string(fields, "id", "a session"), true);
  }
}
