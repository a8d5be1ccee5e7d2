/** Homes and volumes: which requests are sent. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { fake, js, problem } from "./fake.js";

const STORAGE = {
  created_at: "2026-01-01T12:00:00Z",
  last_used_at: "2026-01-01T12:00:00Z",
  in_use: false,
  used_bytes: 4096,
  used_inodes: 1,
  max_bytes: null,
  max_inodes: 100,
};

test("a session asks for a home and volumes", async (t) => {
  const { client, server } = await fake(t, [js({ id: "a" })]);
  await client.session({ id: "a", home: "session", volumes: [{ name: "v", read_only: true }] });
  assert.deepEqual(JSON.parse(`${server.seen[0]?.body}`), {
    id: "a",
    home: "session",
    volumes: [{ name: "v", read_only: true }],
  });
});

test("homes and volumes are read, and their names stay one segment", async (t) => {
  const home = { id: "@tenant", kind: "tenant", storage: STORAGE };
  const volume = { name: "v", storage: STORAGE };
  const { client, server } = await fake(t, [
    js({ homes: [home] }),
    js(home),
    js({ entries: [{ path: "f" }], next: "f" }),
    js({ entries: [], next: null }),
    js(volume, 201),
    js({ volumes: [volume] }),
    js({}),
    problem(404, "unknown_volume"),
    problem(404, "unknown_file"),
  ]);
  assert.deepEqual(await client.homes.list(), [home]);
  assert.deepEqual(await client.homes.get("@tenant"), home);
  const paths = [];
  for await (const file of client.homes.files("../x", "d", { recursive: true })) {
    paths.push(file.path);
  }
  assert.deepEqual(paths, ["f"]);
  assert.deepEqual(await client.volumes.create("v"), volume);
  assert.deepEqual(await client.volumes.list(), [volume]);
  assert.equal((await client.volumes.read("v", "b/c d")).length, 2);
  assert.equal(await client.volumes.delete("v"), false);
  assert.equal(await client.homes.deleteFile("a", "f"), false);
  assert.deepEqual(
    server.seen.map(({ method, target }) => `${method} ${target}`),
    [
      "GET /v1/homes",
      "GET /v1/homes/%40tenant",
      "GET /v1/homes/..%2Fx/files?path=d&recursive=true",
      "GET /v1/homes/..%2Fx/files?path=d&recursive=true&after=f",
      "POST /v1/volumes",
      "GET /v1/volumes",
      "GET /v1/volumes/v/files/b/c%20d",
      "DELETE /v1/volumes/v",
      "DELETE /v1/homes/a/files/f",
    ],
  );
});
