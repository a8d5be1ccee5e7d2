/** Content to send: text, bytes, a Blob, or an iterable of bytes. */

import { encodeBase64 } from "./base64.js";

const CHUNK_BYTES = 1 << 20;

/** Bytes that are all there. */
export type Bytes = Uint8Array | ArrayBuffer;

/**
 * Content of an upload. A string is sent as UTF-8. For a local file in Node, give
 * `await openAsBlob(path)` or `createReadStream(path)`, both of `node:fs`.
 */
export type Content =
  | string
  | Bytes
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array>
  | Iterable<Uint8Array>;

/** Content by path in the working directory. */
export type InputFiles = Readonly<Record<string, string | Bytes | Blob>>;

/** A body's bytes. */
export interface Source {
  /** Starts at the first byte. */
  chunks(): AsyncGenerator<Uint8Array, void, undefined>;
  /** The whole, if `fetch` can send it as it is. */
  readonly whole: Uint8Array | Blob | null;
  /** Null if unknown in advance. */
  readonly sizeBytes: number | null;
  /** Whether `chunks` works a second time. */
  readonly repeatable: boolean;
}

export function sourceOf(content: Content): Source {
  if (typeof content === "string") {
    return ofBytes(new TextEncoder().encode(content));
  }
  if (isBytes(content)) {
    return ofBytes(bytesOf(content));
  }
  if (content instanceof Blob) {
    const chunks = () => ofStream(content.stream());
    return { chunks, whole: content, sizeBytes: content.size, repeatable: true };
  }
  return { chunks: () => ofIterable(content), whole: null, sizeBytes: null, repeatable: false };
}

function ofBytes(bytes: Uint8Array): Source {
  async function* chunks(): AsyncGenerator<Uint8Array, void, undefined> {
    for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
      yield bytes.subarray(start, start + CHUNK_BYTES);
    }
  }
  return { chunks, whole: bytes, sizeBytes: bytes.length, repeatable: true };
}

async function* ofIterable(
  content: ReadableStream<Uint8Array> | AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  // Not every browser can iterate a ReadableStream.
  const parts = "getReader" in content ? ofStream(content) : content;
  for await (const part of parts) {
    if (!(part instanceof Uint8Array)) {
      throw new TypeError("the content's parts are not bytes: give an iterable of Uint8Array");
    }
    yield part;
  }
}

async function* ofStream(
  stream: ReadableStream<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}

/** Encodes files for a JSON request. */
export async function inputFiles(
  files: InputFiles | undefined,
): Promise<{ name: string; text?: string; data?: string }[]> {
  const entries = Object.entries(files ?? {}).map(async ([name, content]) => {
    if (typeof content === "string") {
      return { name, text: content };
    }
    const bytes = content instanceof Blob ? await content.arrayBuffer() : content;
    if (!isBytes(bytes)) {
      throw new TypeError(`files[${JSON.stringify(name)}]: give a string, bytes or a Blob`);
    }
    return { name, data: encodeBase64(bytesOf(bytes)) };
  });
  return Promise.all(entries);
}

/** A command's standard input, as fields of a JSON request. */
export function stdinFields(stdin: string | Bytes | undefined): Record<string, string> {
  if (stdin === undefined) {
    return {};
  }
  return typeof stdin === "string" ? { stdin } : { stdin_base64: encodeBase64(bytesOf(stdin)) };
}

function isBytes(content: unknown): content is Bytes {
  return content instanceof Uint8Array || content instanceof ArrayBuffer;
}

function bytesOf(content: Bytes): Uint8Array {
  return content instanceof Uint8Array ? content : new Uint8Array(content);
}
