/** The decoder of event streams, split anywhere. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { UnexpectedAnswer } from "vivarium-client";

import { Decoder, type Message } from "../dist/core/sse.js";

const encoder = new TextEncoder();

function decoded(text: string, chunkBytes = Infinity): Message[] {
  const bytes = encoder.encode(text);
  const decoder = new Decoder();
  const messages: Message[] = [];
  for (let start = 0; start < bytes.length; start += chunkBytes) {
    messages.push(...decoder.feed(bytes.subarray(start, start + chunkBytes)));
    if (chunkBytes === Infinity) {
      break;
    }
  }
  return messages;
}

const STREAM =
  "\ufeff: a comment\nid: 1\nevent: one\ndata: é\n\n" +
  "id:2\r\ndata: a\r\ndata:  b\r\nretry: 5\r\n\r\n" +
  "data\rdata: c\r\r" +
  "id: 3\n\n" +
  "event: none\n\n" +
  "id: \0\nother: x\ndata: \ufeff🐍\n\nid: 9\ndata: unfinished\n";

const MESSAGES = [
  { id: "1", event: "one", data: "é" },
  { id: "2", event: "message", data: "a\n b" },
  { id: "2", event: "message", data: "\nc" },
  { id: "3", event: "message", data: "\ufeff🐍" },
];

test("a stream means the same however it is split", () => {
  assert.deepEqual(decoded(STREAM), MESSAGES);
  for (let chunkBytes = 1; chunkBytes < 40; chunkBytes += 1) {
    assert.deepEqual(decoded(STREAM, chunkBytes), MESSAGES, `in chunks of ${chunkBytes}`);
  }
});

test("a stream means the same whatever ends its lines", () => {
  const plain = "id: 1\ndata: a\ndata: b\n\ndata: c\n\n";
  for (const end of ["\r\n", "\r"]) {
    const other = plain.replaceAll("\n", end);
    for (const chunkBytes of [1, 2, 3, Infinity]) {
      assert.deepEqual(decoded(other, chunkBytes), decoded(plain), JSON.stringify(end));
    }
  }
});

test("bytes that are no UTF-8 are replaced", () => {
  const bytes = new Uint8Array([...encoder.encode("data: "), 0xff, 0xc3, ...encoder.encode("\n\n")]);
  assert.deepEqual([...new Decoder().feed(bytes)].map((one) => one.data), ["\ufffd\ufffd"]);
});

test("a long line in many chunks costs its length once", () => {
  const decoder = new Decoder();
  const chunk = encoder.encode("x".repeat(1000));
  assert.deepEqual([...decoder.feed(encoder.encode("data: "))], []);
  for (let n = 0; n < 20_000; n += 1) {
    assert.deepEqual([...decoder.feed(chunk)], []);
  }
  const [message] = decoder.feed(encoder.encode("\n\n"));
  assert.equal(message?.data.length, 20_000_000);
});

test("many short lines in one chunk are searched once", () => {
  const lines = "data: x\n".repeat(500_000);
  const [message] = decoded(`${lines}\n`);
  assert.equal(message?.data.length, 2 * 500_000 - 1);
});

test("an event without an end is refused, in one line or in many", () => {
  for (const part of ["x".repeat(100), "data: x\n".repeat(12)]) {
    const decoder = new Decoder(1000);
    const feed = () => {
      for (let n = 0; n < 20; n += 1) {
        assert.deepEqual([...decoder.feed(encoder.encode(part))], []);
      }
    };
    assert.throws(feed, UnexpectedAnswer);
  }
});
