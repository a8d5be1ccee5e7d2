/** Against a real daemon: several kernels in a session. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, Conflict, type Context, type EventStream, NotFound, QuotaExceeded } from "vivarium-client";

import { needsDaemon } from "./daemon.js";
import { daemon, real } from "./real.js";

// Runs until somebody makes a file.
const AWAIT_FILE = "import os, time\nprint('on')\nwhile not os.path.exists('go'): time.sleep(0.01)";

async function running(context: Pick<Context, "stream">): Promise<EventStream> {
  const stream = context.stream(AWAIT_FILE);
  for (;;) {
    const { value } = await stream.next();
    if (!value || value.type === "stdout") {
      return stream;
    }
  }
}

test("contexts have variables of their own, share files, and run at once", needsDaemon, async (t) => {
  const { session } = await real(t);
  const other = await session.openContext({ id: "other" });
  assert.deepEqual([other.id, other.sessionId], ["other", session.id]);
  await session.execute("x = 1; open('f', 'w').write('of main')");
  const outcome = await other.execute("'x' in globals(), open('f').read()");
  assert.equal(outcome.value?.repr, "(False, 'of main')");
  assert.equal(outcome.kernel?.context, "other");
  await other.execute("x = only_there = 2");
  assert.equal((await session.execute("x")).value?.repr, "1");
  assert.equal((await session.execute("x", { context: "other" })).value?.repr, "2");
  assert.deepEqual((await session.complete("only_th")).matches, []);
  assert.equal((await other.complete("only_th")).matches[0]?.text, "only_there");
  assert.equal((await other.inspect("only_there")).found, true);
  assert.equal((await other.isComplete("1")).status, "complete");
  const main = await running(session);
  // It would wait for ever behind the code in `main`.
  assert.equal((await other.execute("x")).value?.repr, "2");
  const states = (await session.contexts()).map(({ id, state }) => [id, state]);
  assert.deepEqual(states, [["main", "running"], ["other", "idle"]]);
  const beside = await running(other);
  assert.equal((await other.info()).running, beside.executionId);
  assert.equal((await other.interrupt()).interrupted, true);
  assert.equal((await beside.wait()).status, "interrupted");
  await session.files.put("go", "");
  assert((await main.wait()).ok);
});

test("a context is reset and deleted alone", needsDaemon, async (t) => {
  const { session } = await real(t);
  const other = await session.openContext({ id: "other" });
  await session.execute("x = 1");
  const first = await running(other);
  const reply = await other.reset();
  assert.deepEqual(
    [reply.context, reply.scope, reply.ended_execution_id],
    ["other", "context", first.executionId],
  );
  assert.equal((await first.wait()).cause, "reset");
  const second = await running(other);
  assert.equal(await other.delete(), true);
  assert.equal((await second.wait()).cause, "deleted");
  assert.equal(await other.delete(), false);
  assert.equal((await session.execute("x")).value?.repr, "1");
  const survivor = await session.start(["sleep", "1000"], { survivesReset: true });
  assert.equal((await session.reset()).context, "main");
  assert.equal(await survivor.poll(), null);
});

test("contexts that can not be are refused in words", needsDaemon, async (t) => {
  const { session } = await real(t);
  const client = new Client({ url: (await daemon()).url, maxRetries: 0 });
  const same = client.attach(session.id);
  const none = same.context("none");
  for (const call of [() => none.info(), () => none.reset(), () => none.execute("1")]) {
    await assert.rejects(call(), (error) => error instanceof NotFound && error.code === "unknown_context");
  }
  const conflict = (code: string) => (error: unknown) => error instanceof Conflict && error.code === code;
  await assert.rejects(same.context("main").delete(), conflict("main_context"));
  await assert.rejects(same.openContext({ id: "main" }), conflict("context_exists"));
  for (let number = 1; number < 16; number++) {
    await same.openContext();
  }
  await assert.rejects(
    same.openContext(),
    (error) => error instanceof QuotaExceeded && error.code === "too_many_contexts",
  );
});
