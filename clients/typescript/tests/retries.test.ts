/** What is sent again, and when. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError, Client, Draining, QuotaExceeded, TransportError } from "vivarium-client";

import { drop, Fake, fake, js, noPauses, OUTCOME, problem } from "./fake.js";

const SESSION = { id: "s" };

test("an execution is sent again with its key until it is answered", async (t) => {
  const { server, client, pauses } = await fake(t, [drop, problem(503, "no_room"), js(OUTCOME)]);
  assert.equal((await client.run("1")).text, "hello\n");
  const keys = server.seen.map((seen) => seen.headers["idempotency-key"]);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  assert.equal(pauses.length, 2);
  assert(pauses.every((ms, n) => ms >= 50 * 2 ** n && ms <= 100 * 2 ** n), `${pauses}`);
});

test("two executions have two keys", async (t) => {
  const { server, client } = await fake(t, [js(OUTCOME)]);
  await Promise.all([client.run("1"), client.run("1")]);
  assert.equal(new Set(server.seen.map((seen) => seen.headers["idempotency-key"])).size, 2);
});

test("the daemon's time is waited for, unless it is too long", async (t) => {
  const { client, pauses } = await fake(t, [
    problem(429, "rate", { "Retry-After": "3" }),
    js(OUTCOME),
    problem(429, "rate", { "Retry-After": "61" }),
  ]);
  await client.run("1");
  assert.deepEqual(pauses, [3000]);
  await assert.rejects(client.run("1"), (error) => {
    assert(error instanceof QuotaExceeded);
    return error.retryAfterSecs === 61;
  });
});

test("the quota that is used up is named", async (t) => {
  const quota = { status: 429, code: "quota_exceeded", detail: "d", quota: "execution_rate" };
  const { client } = await fake(t, [
    js(quota, 429, { "Retry-After": "61" }),
    problem(429, "queue_full", { "Retry-After": "61" }),
  ]);
  for (const expected of ["execution_rate", null]) {
    await assert.rejects(client.run("1"), (error) => {
      assert(error instanceof QuotaExceeded);
      return error.quota === expected && error.retryAfterSecs === 61;
    });
  }
});

test("a Retry-After that is no number is none", async (t) => {
  for (const header of ["-1", "1e99", "NaN", "Wed, 21 Oct 2026 07:28:00 GMT", "9".repeat(400)]) {
    const { client, pauses } = await fake(t, [
      problem(503, "draining", { "Retry-After": header }),
      js(OUTCOME),
    ]);
    await client.run("1");
    assert(pauses.length === 1 && pauses[0]! <= 100, header);
  }
});

test("what could happen twice is sent once", async (t) => {
  const { server, client } = await fake(t, [drop]);
  const session = client.attach("s");
  const context = session.context("a");
  for (const call of [
    () => client.session(),
    () => session.interrupt(),
    () => session.reset(),
    () => session.openContext({ id: "a" }),
    () => context.interrupt(),
    () => context.reset(),
  ]) {
    server.seen.length = 0;
    await assert.rejects(call(), (error) => error instanceof TransportError && error.reached);
    assert.equal(server.seen.length, 1);
  }
  server.seen.length = 0;
  await assert.rejects(client.session({ idempotencyKey: "k" }), TransportError);
  assert.equal(server.seen.length, 3);
});

test("a daemon that is not there was not reached", async (t) => {
  const pauses = noPauses(t);
  const server = new Fake();
  await server.listen();
  const { url } = server;
  server.close();
  for (const options of [{}, { fetch }]) {
    const client = new Client({ url, ...options });
    const isUnreached = (error: unknown) => error instanceof TransportError && !error.reached;
    pauses.length = 0;
    await assert.rejects(client.attach("s").reset(), isUnreached);
    assert.equal(pauses.length, 2);
  }
  const socket = new Client({ url: "unix:/nowhere/api.sock", maxRetries: 0 });
  await assert.rejects(socket.host(), /unix:\/nowhere\/api\.sock: .*ENOENT/);
});

test("other refusals are final, and retries can be switched off", async (t) => {
  const { server, client } = await fake(t, [problem(500, "internal")]);
  await assert.rejects(client.run("1"), ApiError);
  assert.equal(server.seen.length, 1);
  server.answers = [problem(503, "draining")];
  await assert.rejects(new Client({ url: server.url, maxRetries: 0 }).run("1"), Draining);
  assert.equal(server.seen.length, 2);
  assert.throws(() => new Client({ maxRetries: -1 }), RangeError);
});

test("content that can be read once is sent once", async (t) => {
  const { server, client } = await fake(t, [problem(503, "no_room")]);
  const { files } = client.attach("s");
  async function* parts() {
    yield new Uint8Array(10);
  }
  await assert.rejects(files.put("a", parts()), ApiError);
  assert.equal(server.seen.length, 1);
  for (const content of ["text", new Uint8Array(1 << 21), new Blob(["blob"])]) {
    server.seen.length = 0;
    await assert.rejects(files.put("a", content), ApiError);
    assert.equal(server.seen.length, 3);
    assert.equal(new Set(server.seen.map((seen) => seen.body.toString("base64"))).size, 1);
  }
});

test("a connection that was closed while idle costs one pause", async (t) => {
  const { server, client, pauses } = await fake(t, [js(OUTCOME)]);
  await client.run("1");
  server.answers = [drop, js(SESSION)];
  await client.attach("s").info();
  assert.equal(pauses.length, 1);
});

test("an abort ends a pause", async (t) => {
  const server = new Fake(problem(503, "no_room", { "Retry-After": "60" }));
  await server.listen();
  t.after(() => server.close());
  const call = new AbortController();
  const run = new Client({ url: server.url }).run("1", { signal: call.signal });
  const reason = new Error("enough");
  setTimeout(() => call.abort(reason), 100);
  await assert.rejects(run, reason);
});
