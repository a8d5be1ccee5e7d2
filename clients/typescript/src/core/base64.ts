/** Base64 (RFC 4648, section 4), in browsers and in Node alike. */

import { UnexpectedAnswer } from "../errors.js";

// String.fromCharCode takes a limited number of arguments; a multiple of 3 needs no padding inside.
const CHUNK_BYTES = 3 * 8192;

export function encodeBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
    parts.push(btoa(String.fromCharCode(...bytes.subarray(start, start + CHUNK_BYTES))));
  }
  return parts.join("");
}

/** Decodes base64, such as the `data` of an image. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  let binary: string;
  try {
    binary = atob(text);
  } catch (cause) {
    throw new UnexpectedAnswer("the content is no base64", { cause });
  }
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) {
    bytes[index] = binary.charCodeAt(index);
  }
  return bytes;
}
