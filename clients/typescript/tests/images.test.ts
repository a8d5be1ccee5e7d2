/** Suspending, resuming, branching and rolling back sessions, and images by themselves. */

import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import {
  Client,
  Conflict,
  InvalidRequest,
  NotFound,
  QuotaExceeded,
  TransportError,
  UnexpectedAnswer,
} from "vivarium-client";

import { Daemon, needsDaemon } from "./daemon.js";
import { type Answer, drop, fake, js, message, OUTCOME, problem, sse } from "./fake.js";

const IMAGE = {
  size_bytes: 39841,
  suspended_at: "2026-01-01T12:03:00Z",
  expires_at: null,
  auto_resume: true,
};
const STORED_IMAGE = {
  ...IMAGE,
  session_id: "a",
  environment: "default",
  template: "5f".repeat(32),
  executions: 2,
};
const CHECKPOINT = {
  name: "before",
  created_at: "2026-11-28T01:02:03Z",
  size_bytes: 39841,
  executions: 4,
};

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

test("checkpoints are made, listed, gone back to and deleted", async (t) => {
  const later = { ...CHECKPOINT, name: "c-2" };
  const { client, server } = await fake(t, [
    js(CHECKPOINT, 201),
    js(later, 201),
    js({ checkpoints: [CHECKPOINT, later] }),
    js({ id: "a", state: "idle" }),
    js({ sessions: [{ id: "b" }] }, 201),
    (response) => response.writeHead(204).end(),
    problem(404, "unknown_checkpoint"),
    problem(404, "unknown_checkpoint"),
  ]);
  const session = client.attach("a");
  assert.deepEqual(await session.checkpoint({ name: "before" }), CHECKPOINT);
  assert.equal((await session.checkpoint()).name, "c-2");
  assert.deepEqual(await session.checkpoints(), [CHECKPOINT, later]);
  assert.equal((await session.rollback("before")).state, "idle");
  assert.deepEqual((await session.branch({ checkpoint: "before" })).map(({ id }) => id), ["b"]);
  assert.equal(await session.deleteCheckpoint("../a b"), true);
  assert.equal(await session.deleteCheckpoint("before"), false);
  await assert.rejects(session.rollback("before"), NotFound);
  assert.deepEqual(
    server.seen.map(({ method, target, body }) => `${method} ${target} ${body}`.trim()),
    [
      'POST /v1/sessions/a/checkpoints {"name":"before"}',
      "POST /v1/sessions/a/checkpoints {}",
      "GET /v1/sessions/a/checkpoints",
      'POST /v1/sessions/a/rollback {"checkpoint":"before"}',
      'POST /v1/sessions/a/branch {"count":1,"checkpoint":"before"}',
      "DELETE /v1/sessions/a/checkpoints/..%2Fa%20b",
      "DELETE /v1/sessions/a/checkpoints/before",
      'POST /v1/sessions/a/rollback {"checkpoint":"before"}',
    ],
  );
});

test("checkpoints are compared", async (t) => {
  const diff = {
    from: "before",
    to: "after",
    added: [{ name: "rows", type: "list" }],
    removed: [],
    changed: [{ name: "x", type: "int" }],
    more: false,
  };
  const { client, server } = await fake(t, [
    js(diff),
    js({ ...diff, from: null }),
    js({ ...diff, removed: null }),
    problem(404, "unknown_checkpoint"),
  ]);
  const session = client.attach("a");
  assert.deepEqual(await session.checkpointDiff("after", { from: "before" }), diff);
  assert.equal((await session.checkpointDiff("a b")).from, null);
  await assert.rejects(session.checkpointDiff("after"), UnexpectedAnswer);
  await assert.rejects(session.checkpointDiff("after", { from: "a&b" }), NotFound);
  assert.deepEqual(
    server.seen.map(({ method, target }) => `${method} ${target}`),
    [
      "GET /v1/sessions/a/checkpoints/after/diff?from=before",
      "GET /v1/sessions/a/checkpoints/a%20b/diff",
      "GET /v1/sessions/a/checkpoints/after/diff",
      "GET /v1/sessions/a/checkpoints/after/diff?from=a%26b",
    ],
  );
});

test("a checkpoint that cannot be made says why", async (t) => {
  const { client } = await fake(t, [
    problem(409, "checkpoint_exists"),
    problem(409, "checkpoints_off"),
    problem(409, "not_imageable"),
    problem(429, "images_full"),
  ]);
  const session = client.attach("a");
  await assert.rejects(session.checkpoint({ name: "before" }), Conflict);
  await assert.rejects(session.checkpoint(), { name: "Conflict", code: "checkpoints_off" });
  await assert.rejects(session.checkpoint(), Conflict);
  await assert.rejects(session.checkpoint(), QuotaExceeded);
});

test("a session asks for its checkpoints", async (t) => {
  const { client, server } = await fake(t, [js({ id: "a" }, 201)]);
  await client.session({ checkpoint: "each", autoRollback: true });
  await client.session({ checkpoint: "off", autoRollback: false, autoResume: false });
  await client.session();
  assert.deepEqual(
    server.seen.map(({ body }) => JSON.parse(`${body}`)),
    [
      { checkpoint: "each", auto_rollback: true },
      { checkpoint: "off", auto_rollback: false, auto_resume: false },
      {},
    ],
  );
});

test("an outcome tells whether the session was rolled back", async (t) => {
  const lost = { ...OUTCOME, status: "killed", cause: "signal", rolled_back: true };
  const events = message(1, "done", { ...lost, stdout: undefined });
  const { client } = await fake(t, [js(lost), sse(events), js(OUTCOME), js({ ...lost, rolled_back: 1 })]);
  const session = client.attach("a");
  assert.equal((await session.execute("1")).rolled_back, true);
  assert.equal((await session.stream("1").wait()).rolled_back, true);
  // As an earlier daemon answers.
  assert.equal((await session.execute("1")).rolled_back, false);
  await assert.rejects(session.execute("1"), UnexpectedAnswer);
});

test("only what changes nothing twice is sent again", async (t) => {
  const { client, server } = await fake(t, [
    drop,
    js({ id: "a" }),
    drop,
    js({ checkpoints: [] }),
    drop,
    (response) => response.writeHead(204).end(),
    drop,
  ]);
  const session = client.attach("a");
  assert.equal((await session.resume()).id, "a");
  assert.deepEqual(await session.checkpoints(), []);
  assert.equal(await session.deleteCheckpoint("before"), true);
  assert.equal(server.seen.length, 6);
  await assert.rejects(session.suspend(), TransportError);
  await assert.rejects(session.branch(), TransportError);
  await assert.rejects(session.checkpoint(), TransportError);
  await assert.rejects(session.rollback("before"), TransportError);
  assert.equal(server.seen.length, 10);
});

test("images are listed, shown and deleted", async (t) => {
  const { client, server } = await fake(t, [
    js({ images: [STORED_IMAGE], next: "a" }),
    js({ images: [{ ...STORED_IMAGE, session_id: "b" }], next: null }),
    js(STORED_IMAGE),
    problem(409, "not_suspended"),
    (response) => response.writeHead(204).end(),
    problem(404, "unknown_session"),
    problem(409, "not_suspended"),
  ]);
  const ids = [];
  for await (const image of client.images.list()) {
    ids.push(image.session_id);
  }
  assert.deepEqual(ids, ["a", "b"]);
  assert.deepEqual(await client.images.get("a"), STORED_IMAGE);
  await assert.rejects(client.images.get("a"), { name: "Conflict", code: "not_suspended" });
  assert.equal(await client.images.delete("../a b"), true);
  assert.equal(await client.images.delete("a"), false);
  await assert.rejects(client.images.delete("a"), Conflict);
  assert.deepEqual(
    server.seen.map(({ method, target }) => `${method} ${target}`),
    [
      "GET /v1/images",
      "GET /v1/images?after=a",
      "GET /v1/images/a",
      "GET /v1/images/a",
      "DELETE /v1/images/..%2Fa%20b",
      "DELETE /v1/images/a",
      "DELETE /v1/images/a",
    ],
  );
});

const TAR = new Uint8Array(2_000_000).map((_, index) => index * 7);

/** A directory for one test. */
async function directory(t: TestContext): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), "vc"));
  t.after(() => rm(made, { recursive: true }));
  return made;
}

test("an image is exported whole or not at all", async (t) => {
  const head = { "Content-Type": "application/x-tar", "Content-Length": TAR.length };
  const whole: Answer = (response) => response.writeHead(200, head).end(TAR);
  const cut: Answer = (response) => {
    response.writeHead(200, head).write(TAR.subarray(1), () => response.destroy());
  };
  const { client, server } = await fake(t, [whole, whole, cut, problem(409, "not_suspended")]);
  const local = await directory(t);
  const target = join(local, "a.tar");
  assert.equal(await client.images.export("a", target), TAR.length);
  assert((await readFile(target)).equals(TAR));
  const image = await client.images.open("a", { checkpoint: "a b" });
  assert.deepEqual([image.sizeBytes, image.mimeType], [TAR.length, "application/x-tar"]);
  assert((await image.bytes()).every((byte, index) => byte === TAR[index]));
  await writeFile(target, "before");
  await assert.rejects(client.images.export("a", target), TransportError);
  await assert.rejects(client.images.export("a", target), Conflict);
  assert.equal(await readFile(target, "utf-8"), "before");
  assert.deepEqual(await readdir(local), ["a.tar"]);
  assert.deepEqual(
    server.seen.map(({ target }) => target),
    [
      "/v1/images/a/export",
      "/v1/images/a/export?checkpoint=a+b",
      "/v1/images/a/export",
      "/v1/images/a/export",
    ],
  );
});

test("an image is imported from bytes, a Blob or a stream", async (t) => {
  const { client, server } = await fake(t, [js({ id: "b", state: "suspended" }, 201)]);
  const local = join(await directory(t), "a.tar");
  await writeFile(local, TAR);
  for (const image of [TAR, new Blob([TAR]), createReadStream(local)]) {
    assert.equal((await client.images.import(image, { id: "b" })).id, "b");
  }
  for (const { method, target, headers, body } of server.seen) {
    assert.equal(`${method} ${target}`, "POST /v1/images?id=b");
    assert.equal(headers["content-type"], "application/x-tar");
    assert(body.equals(TAR));
  }
});

test("an image is imported once", async (t) => {
  const { client, server } = await fake(t, [
    drop,
    problem(409, "image_failed"),
    problem(409, "session_exists"),
    problem(422, "invalid_field"),
    problem(429, "images_full"),
  ]);
  await assert.rejects(client.images.import(TAR), TransportError);
  assert.deepEqual(server.seen.map(({ target }) => target), ["/v1/images"]);
  await assert.rejects(client.images.import(TAR), { name: "Conflict", code: "image_failed" });
  await assert.rejects(client.images.import(TAR), { name: "Conflict", code: "session_exists" });
  await assert.rejects(client.images.import(TAR), InvalidRequest);
  await assert.rejects(client.images.import(TAR), QuotaExceeded);
});

/** Starts a daemon that makes images, for one test. */
async function withImages(t: TestContext): Promise<Client> {
  const daemon = await Daemon.start("images = true\n");
  t.after(() => daemon.stop());
  const client = new Client({ url: daemon.url });
  t.after(() => client.close());
  // Sessions before that have an executed kernel.
  while ((await client.host()).environments[0]?.template.state === "building") {}
  return client;
}

test("variables survive being suspended, and branches go their own ways", needsDaemon, async (t) => {
  const client = await withImages(t);
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

test("a session is resumed by hand where that was asked for", needsDaemon, async (t) => {
  const client = await withImages(t);
  await using session = await client.session({ autoResume: false });
  await session.execute("x = 1");
  assert.equal((await session.suspend()).image?.auto_resume, false);
  await assert.rejects(session.execute("x"), { code: "suspended" });
  await session.resume();
  assert.equal((await session.execute("x")).value?.repr, "1");
});

test("code that kills its kernel is undone", needsDaemon, async (t) => {
  const client = await withImages(t);
  await using session = await client.session({ checkpoint: "each", autoRollback: true });
  const made = await session.execute("x = 1");
  const lost = await session.execute("import os, signal; x = 2; os.kill(os.getpid(), signal.SIGKILL)");
  assert.deepEqual([lost.status, lost.state, lost.rolled_back], ["killed", "preserved", true]);
  assert.equal((await session.execute("x")).value?.repr, "1");
  assert.equal((await session.checkpoints())[0]?.name, `after-${made.execution_id}`);
});

test("a session goes back to a checkpoint", needsDaemon, async (t) => {
  const client = await withImages(t);
  await using session = await client.session();
  await session.execute("x = 1");
  const made = await session.checkpoint({ name: "a" });
  assert(made.size_bytes > 0);
  await assert.rejects(session.checkpoint({ name: "a" }), Conflict);
  await session.execute("x = 2; open('b.txt', 'w').write('later')");
  assert.equal(await session.files.text("b.txt"), "later");
  assert.equal((await session.rollback("a")).id, session.id);
  assert.equal((await session.execute("x")).value?.repr, "1");
  await assert.rejects(session.files.text("b.txt"), NotFound);
  // Otherwise the branch could have the present state.
  await session.execute("x = 3");
  await session.checkpoint({ name: "b" });
  const { from, changed } = await session.checkpointDiff("b");
  assert.deepEqual([from, changed], ["a", [{ name: "x", type: "int" }]]);
  assert.equal(await session.deleteCheckpoint("b"), true);
  for (const one of await session.branch({ checkpoint: "a" })) {
    await using branch = one;
    assert.equal((await branch.execute("x")).value?.repr, "1");
  }
  assert.deepEqual(await session.checkpoints(), [made]);
  assert.equal(await session.deleteCheckpoint("a"), true);
  assert.deepEqual(await session.checkpoints(), []);
  await assert.rejects(session.rollback("a"), { code: "unknown_checkpoint" });
});

test("an image goes out and comes in under another id", needsDaemon, async (t) => {
  const client = await withImages(t);
  await using session = await client.session();
  await session.execute("x = 6 * 7");
  await assert.rejects(client.images.get(session.id), { code: "not_suspended" });
  await session.suspend();
  const image = await client.images.get(session.id);
  for await (const one of client.images.list()) {
    assert.deepEqual(one, image);
  }
  assert.equal(image.executions, 1);
  const exported = join(await directory(t), "a.tar");
  const sizeBytes = await client.images.export(session.id, exported);
  const again = await client.images.open(session.id);
  assert.equal(again.sizeBytes, sizeBytes);
  again.close();
  await assert.rejects(client.images.import(createReadStream(exported)), { code: "session_exists" });
  assert.equal(await client.images.delete(session.id), true);
  assert.equal(await client.images.delete(session.id), false);
  const stream = createReadStream(exported);
  await using imported = await client.images.import(stream, { id: "another" });
  assert.equal((await imported.info()).state, "suspended");
  assert.equal((await imported.execute("x")).value?.repr, "42");
  const cut = (await readFile(exported)).subarray(0, -2000);
  await assert.rejects(client.images.import(cut), { code: "image_failed" });
});
