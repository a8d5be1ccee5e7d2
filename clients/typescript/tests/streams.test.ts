/** Against a real daemon: streams, and connections that break. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, type Event, EventsGone, NotFound } from "vivarium-client";

import { needsDaemon, Relay } from "./daemon.js";
import { noPauses } from "./fake.js";
import { daemon, real } from "./real.js";

const COUNT = "for n in range(2000): print(n, 'x' * 50)";
const COUNTED = Array.from({ length: 2000 }, (_, n) => `${n} ${"x".repeat(50)}\n`).join("");

async function all(stream: AsyncIterable<Event>): Promise<Event[]> {
  const events: Event[] = [];
  for await (const event of stream) {
    events.push(event);
  }
  return events;
}

function text(events: Event[], type: "stdout" | "stderr" = "stdout"): string {
  return events.map((event) => (event.type === type ? event.text : "")).join("");
}

test("events come in order, and the outcome has them all", needsDaemon, async (t) => {
  const { session } = await real(t);
  const stream = session.stream("import sys\nprint('out')\nprint('err', file=sys.stderr)\n42");
  const events = await all(stream);
  assert.deepEqual(events.map((event) => event.number), events.map((_, index) => index + 1));
  const [first, last] = [events[0], events.at(-1)];
  assert(first?.type === "started" && last?.type === "done");
  assert.deepEqual([first.session_id, first.execution_id], [session.id, stream.executionId]);
  assert.deepEqual([text(events), text(events, "stderr")], ["out\n", "err\n"]);
  assert.equal(stream.outcome, last.outcome);
  assert.deepEqual([last.outcome.stdout, last.outcome.value?.repr], ["out\n", "42"]);
});

test("output comes while the code runs", needsDaemon, async (t) => {
  const { session } = await real(t);
  const code =
    "import os, time\nprint('waiting', flush=True)\n" +
    "while not os.path.exists('go'): time.sleep(0.01)\nprint('went on')";
  const stream = session.stream(code);
  for (let event = await stream.next(); event.value?.type !== "stdout"; event = await stream.next()) {
    assert(!event.done);
  }
  // The code waits for this, and this for the code's first line.
  await session.files.put("go", "");
  assert.equal((await stream.wait()).text, "waiting\nwent on\n");
});

test("a stream and an answer say the same", needsDaemon, async (t) => {
  const { session } = await real(t);
  const code = "print('out'); display('shown'); display({'a': 1}, display_id='d'); 1 / 0";
  const streamed = await session.stream(code).wait();
  const answered = await session.execute(code);
  for (const field of ["status", "stdout", "stderr", "displays", "images", "files"] as const) {
    assert.deepEqual(streamed[field], answered[field], field);
  }
  assert.equal(streamed.exception?.type, "ZeroDivisionError");
  const known = Object.keys(answered).filter((name) => !(name in streamed));
  assert.deepEqual(known, []);
});

test("an execution resumes after every event", needsDaemon, async (t) => {
  const { session } = await real(t);
  const stream = session.stream("for n in range(20): print(n, flush=True)");
  const events = await all(stream);
  const id = stream.executionId;
  assert(id);
  for (let after = 0; after < events.length; after += 1) {
    const again = await all(session.events(id, { after }));
    assert.deepEqual(again.map((event) => event.number), events.slice(after).map((e) => e.number));
    assert.equal(text(again), text(events.slice(after)));
  }
  const execution = await session.execution(id);
  assert.deepEqual([execution.state, execution.outcome?.ok], ["done", true]);
  await assert.rejects(session.execution("1000000"), NotFound);
});

for (const cuts of [[0], [10], [200], [1000], [30_000], [300, 300, 300, 5000]]) {
  test(`a connection may break after ${cuts} bytes`, needsDaemon, async (t) => {
    const { session } = await real(t);
    await session.execute("ran = 0");
    const relay = await Relay.start(await daemon(), cuts);
    t.after(() => relay.close());
    const pauses = noPauses(t);
    // A cut may come before any event: then there is no progress.
    const client = new Client({ url: relay.url, maxRetries: 4 });
    const outcome = await client.attach(session.id).stream(`ran += 1\n${COUNT}`).wait();
    assert.equal(outcome.stdout, COUNTED);
    assert.deepEqual([relay.connections, pauses.length], [cuts.length + 1, cuts.length]);
    assert.equal((await session.execute("ran")).value?.repr, "1");
  });
}

test("an answer that was lost is asked for again, and the code runs once", needsDaemon, async (t) => {
  const { session } = await real(t);
  await session.execute("ran = 0");
  const relay = await Relay.start(await daemon(), [100]);
  t.after(() => relay.close());
  noPauses(t);
  const client = new Client({ url: relay.url });
  assert.equal((await client.attach(session.id).execute("ran += 1; ran")).value?.repr, "1");
  assert.equal((await session.execute("ran")).value?.repr, "1");
});

test("a stream that is left leaves the code running", needsDaemon, async (t) => {
  const { session } = await real(t);
  const stream = session.stream("print('on', flush=True)\nwhile True: pass");
  for await (const event of stream) {
    if (event.type === "stdout") {
      break;
    }
  }
  assert.equal((await stream.next()).done, true);
  await assert.rejects(stream.wait(), /closed before its end/);
  assert.equal((await session.interrupt()).interrupted, true);
  assert(stream.executionId);
  assert.equal((await session.events(stream.executionId).wait()).status, "interrupted");
});

test("a command streams as code does", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  assert.equal((await session.streamCommand({ shell: "cat" }, { stdin: "in" }).wait()).text, "in");
  assert.equal((await client.stream(["echo", "on its own"]).wait()).text, "on its own\n");
});

test("events of an execution that is not kept are refused", needsDaemon, async (t) => {
  const { session } = await real(t);
  const refused = session.events("1000000").wait();
  await assert.rejects(refused, (error) => error instanceof NotFound || error instanceof EventsGone);
});
