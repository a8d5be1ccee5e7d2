/** Suspending, resuming and branching sessions. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, Conflict, TransportError } from "vivarium-client";

import { Daemon, needsDaemon } from "./daemon.js";
import { drop, fake, js, problem } from "./fake.js";

const IMAGE = { size_bytes: 39841, suspended_at: "2026-01-01T12:03:00Z", expires_at: null };

test("a session is suspended, resumed and branched", async (t) => {
  const { client, server } = await fake(t, [
    js({ id: "a", state: "suspended", image: IMAGE }),
    js({ id: "a", state: "idle" }),
    js({ sessions: [{ id: "b" }, { id: "c" }] }, 201),
    js({ sessions: [{ id: "d" }] }, 201),
    js({ imageable: false, reasons: ["2 processes run beside its kernel: end them"] }),
    problem(409, "not_imageable"),
  ]);
  const session = client.attach("a");
  assert.deepEqual((await session.suspend()).image, IMAGE);
  assert.equal((await session.resume()).image, undefined);
  assert.deepEqual((await session.branch({ count: 2 })).map(({ id }) => id), ["b", "c"]);
  assert.deepEqual((await session.branch()).map(({ id }) => id), ["d"]);
  assert.match((await session.imageable()).reasons[0] ?? "", /processes/);
  await assert.rejects(session.suspend(), Conflict);
  assert.deepEqual(
    server.seen.map(({ method, target, body }) => `${method} ${target} ${body}`.trim()),
    [
      "POST /v1/sessions/a/suspend",
      "POST /v1/sessions/a/resume",
      'POST /v1/sessions/a/branch {"count":2}',
      'POST /v1/sessions/a/branch {"count":1}',
      "GET /v1/sessions/a/imageable",
      "POST /v1/sessions/a/suspend",
    ],
  );
});

test("only a resume is sent again", async (t) => {
  const { client, server } = await fake(t, [drop, js({ id: "a" }), drop, drop]);
  const session = client.attach("a");
  assert.equal((await session.resume()).id, "a");
  await assert.rejects(session.suspend(), TransportError);
  await assert.rejects(session.branch(), TransportError);
  assert.equal(server.seen.length, 4);
});

test("variables survive being suspended, and branches go their own ways", needsDaemon, async (t) => {
  const daemon = await Daemon.start("images = true\n");
  t.after(() => daemon.stop());
  const client = new Client({ url: daemon.url });
  t.after(() => client.close());
  // Sessions before that have an executed kernel.
  while ((await client.host()).environments[0]?.template.state === "building") {}
  await using session = await client.session();
  await session.execute("x = [1]");
  const { image } = await session.suspend();
  assert((image?.size_bytes ?? 0) > 0);
  assert.equal((await session.info()).state, "suspended");
  assert.equal((await session.execute("x")).value?.repr, "[1]");
  assert.deepEqual(await session.imageable(), { imageable: true, reasons: [] });
  const [first, second] = await session.branch({ count: 2 });
  await first?.execute("x.append(2)");
  const values = await Promise.all([session, first, second].map((one) => one?.execute("x")));
  assert.deepEqual(values.map((outcome) => outcome?.value?.repr), ["[1]", "[1, 2]", "[1]"]);
});
