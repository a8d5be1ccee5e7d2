/** Environments: which requests are sent. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ApiError } from "vivarium-client";

import { fake, js, problem, sse } from "./fake.js";

const BUILD = {
  name: "a b",
  state: "building",
  started_at: "2026-01-01T12:00:00Z",
  ended_at: null,
  error: null,
  artefact: null,
};
const DONE = { ...BUILD, state: "succeeded", ended_at: "2026-01-01T12:00:09Z", artefact: "00ff" };

test("a build is begun and waited for", async (t) => {
  const gone = problem(410, "result_gone");
  const answers = [js(BUILD, 202), js(BUILD), sse(": none\n\n"), js(BUILD), gone, js(DONE)];
  const { client, server } = await fake(t, answers);
  assert.equal((await client.environments.build("a b", { requirements: "six" })).state, "building");
  assert.equal((await client.environments.wait("a b")).artefact, "00ff");
  assert.deepEqual(JSON.parse(`${server.seen[0]?.body}`), { name: "a b", requirements: "six" });
  const rest = server.seen.slice(1);
  assert.deepEqual(new Set(rest.map((seen) => seen.target)), new Set(["/v1/environments/a%20b/build"]));
  const events = rest.map((seen) => seen.headers.accept === "text/event-stream");
  assert.deepEqual(events, [false, true, false, true, false]);
});

test("a build that is over is not waited for, and one that is not known is told", async (t) => {
  const { client, server } = await fake(t, [js(DONE), problem(404, "unknown_environment")]);
  assert.equal((await client.environments.wait("a")).state, "succeeded");
  await assert.rejects(client.environments.wait("b"), ApiError);
  assert.equal(server.seen.length, 2);
});
