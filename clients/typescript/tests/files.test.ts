/** Against a real daemon: uploads, downloads and lists. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createReadStream } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { ApiError, Client, InvalidRequest, NotFound } from "vivarium-client";

import { needsDaemon, Relay } from "./daemon.js";
import { noPauses } from "./fake.js";
import { daemon, real } from "./real.js";

const LARGE = new Uint8Array(5_000_000).map((_, index) => index * 7);

test("a file comes back as it was sent, whatever it was sent as", needsDaemon, async (t) => {
  const { session } = await real(t);
  const directory = await mkdtemp(join(tmpdir(), "vc"));
  t.after(() => rm(directory, { recursive: true }));
  const local = join(directory, "local");
  await writeFile(local, LARGE);
  async function* parts() {
    yield LARGE.subarray(0, 10);
    yield LARGE.subarray(10);
  }
  for (const content of [LARGE, LARGE.buffer, new Blob([LARGE]), parts(), createReadStream(local)]) {
    const written = await session.files.put("d/large", content);
    assert.equal(written.size_bytes, LARGE.length);
    assert.deepEqual(await session.files.get("d/large"), LARGE);
  }
  assert.equal(await session.files.download("d/large", join(directory, "copy")), LARGE.length);
  const copy = await readFile(join(directory, "copy"));
  assert(LARGE.every((byte, index) => byte === copy[index]), "the copy differs");
  for (const content of ["", "é\n"]) {
    await session.files.put("text", content);
    assert.equal(await session.files.text("text"), content);
  }
});

test("a part of a file is a part", needsDaemon, async (t) => {
  const { session } = await real(t);
  await session.files.put("a", "0123456789");
  assert.equal(await session.files.text("a", { offset: 2, length: 3 }), "234");
  assert.equal(await session.files.text("a", { offset: 8 }), "89");
  await assert.rejects(session.files.get("a", { offset: 11 }), InvalidRequest);
  await assert.rejects(session.files.get("a", { offset: -1 }), RangeError);
  await using file = await session.files.open("a");
  assert.equal(file.sizeBytes, 10);
  assert.deepEqual(await file.bytes(), new TextEncoder().encode("0123456789"));
});

test("absolute paths name files of the session", needsDaemon, async (t) => {
  const { session } = await real(t);
  for (const [name, shown] of [["/mnt/data/a", "a"], ["/tmp/c d/e", "/tmp/c d/e"]] as const) {
    assert.equal((await session.files.put(name, "content")).path, shown);
    assert.equal(await session.files.text(name), "content");
    assert.ok((await session.execute(`open("${name}").read()`)).ok);
    await session.files.delete(name);
  }
});

test("entries are described, made and changed", needsDaemon, async (t) => {
  const { files } = (await real(t)).session;
  await files.makeDirectory("d/e");
  await files.put("a", "abc");
  assert.equal((await files.move("a", "d/b")).path, "d/b");
  assert.equal((await files.chmod("d/b", "0640")).mode, "0640");
  assert.equal((await files.stat("d/b")).size_bytes, 3);
  assert.equal((await files.stat("d/e")).kind, "directory");
  await files.put("c", "c");
  await assert.rejects(files.move("c", "d/b"), { code: "file_exists" });
  assert.equal((await files.move("c", "d/b", { replace: true })).size_bytes, 1);
});

test("changes are watched", needsDaemon, async (t) => {
  const { session } = await real(t);
  const seen: string[] = [];
  for await (const event of session.files.watch()) {
    seen.push(`${event.type} ${event.from ?? ""} ${event.path}`);
    if (event.type === "ready") {
      assert.ok((await session.execute("open('a', 'w').close()")).ok);
    } else if (event.type === "created") {
      await session.files.move("a", "b");
    } else {
      break;
    }
  }
  assert.deepEqual(seen, ["ready  ", "created  a", "moved a b"]);
});

test("a failed download leaves the local file as it was", needsDaemon, async (t) => {
  const { session } = await real(t);
  const directory = await mkdtemp(join(tmpdir(), "vc"));
  t.after(() => rm(directory, { recursive: true }));
  await session.files.put("large", LARGE);
  const target = join(directory, "a");
  await writeFile(target, "before");
  const relay = await Relay.start(await daemon(), [1_000_000]);
  t.after(() => relay.close());
  const cut = new Client({ url: relay.url }).attach(session.id);
  await assert.rejects(cut.files.download("large", target), { name: "TransportError" });
  await assert.rejects(cut.files.download("gone", target), NotFound);
  assert.equal(await readFile(target, "utf-8"), "before");
  assert.deepEqual(await readdir(directory), ["a"]);
  // What is returned whole is asked for again.
  const again = await Relay.start(await daemon(), [1_000_000]);
  t.after(() => again.close());
  const retried = new Client({ url: again.url }).attach(session.id);
  assert.equal(noPauses(t).length, 0);
  assert.equal((await retried.files.get("large")).length, LARGE.length);
});

test("a list has every entry, also over many pages", needsDaemon, async (t) => {
  const { session } = await real(t);
  await session.execute("import os\nos.mkdir('d')\nfor n in range(2500): open(f'd/{n:04}', 'w')");
  const names: string[] = [];
  for await (const entry of session.files.list("d")) {
    names.push(entry.path);
  }
  assert.deepEqual(names, Array.from({ length: 2500 }, (_, n) => `d/${`${n}`.padStart(4, "0")}`));
  const all: string[] = [];
  for await (const entry of session.files.list("d", { recursive: true })) {
    all.push(entry.kind);
  }
  assert.equal(all.length, 2500);
  await session.files.delete("d");
  await assert.rejects(session.files.get("d/0000"), NotFound);
});

test("an archive is unpacked", needsDaemon, async (t) => {
  const { session } = await real(t);
  const directory = await mkdtemp(join(tmpdir(), "vc"));
  t.after(() => rm(directory, { recursive: true }));
  await writeFile(join(directory, "a"), "in the archive");
  const archive = execFileSync("tar", ["--create", "--directory", directory, "a"]);
  assert.equal((await session.files.putTar(archive, "sub")).files, 1);
  assert.equal(await session.files.text("sub/a"), "in the archive");
});

test("odd names are names, and do not leave their route", needsDaemon, async (t) => {
  const { session, client } = await real(t);
  for (const name of ["a b?c#d%2e", "ü/é", "100%", "a+b&c=d"]) {
    await session.files.put(name, name);
    assert.equal(await session.files.text(name), name);
  }
  for (const name of ["..", "a/../b", "./a"]) {
    await assert.rejects(session.files.put(name, ""), TypeError);
  }
  await assert.rejects(session.files.put("", ""), TypeError);
  await assert.rejects(client.attach("..").info(), TypeError);
  await assert.rejects(client.attach("a/b").info(), ApiError);
  assert.throws(() => client.attach(""), TypeError);
});

test("a file that is too large is refused, not a broken connection", needsDaemon, async (t) => {
  const { client } = await real(t);
  await using session = await client.session({ limits: { max_file_size_mb: 1, max_disk_mb: 8 } });
  await assert.rejects(session.files.put("large", LARGE), ApiError);
  async function* endless() {
    for (;;) {
      yield LARGE;
    }
  }
  await assert.rejects(session.files.put("endless", endless()), ApiError);
});
