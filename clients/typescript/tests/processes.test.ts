/** Commands in the background, with a fake daemon and a real one. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Client,
  Conflict,
  InvalidRequest,
  NotFound,
  Process,
  QuotaExceeded,
  type Session,
  TransportError,
} from "vivarium-client";

import { needsDaemon, Relay } from "./daemon.js";
import { drop, EVENTS, fake, js, noPauses, OUTCOME, problem, sse } from "./fake.js";
import { daemon, real } from "./real.js";

const STARTED = js({ session_id: "s", execution_id: "7" }, 202);
const RUNNING = js({ state: "running", outcome: null });
const DONE = js({ state: "done", outcome: OUTCOME });
const BASE = "/v1/sessions/s/executions/7";

// Prints each line as it comes, and is over when its input is.
const ECHO = ["sh", "-c", 'while read line; do echo "got $line"; done; echo over'];

test("a process is started with all that was given", async (t) => {
  const { server, client } = await fake(t, [drop, STARTED]);
  const session = client.attach("s");
  const options = { cwd: "sub", env: { A: "b" }, timeoutMs: 2000, files: { f: "x" } };
  const process = await session.start(["cat"], { stdinOpen: true, ...options });
  assert.deepEqual([process.id, process.sessionId], ["7", "s"]);
  assert(process instanceof Process);
  await session.start({ shell: "cat" }, { stdin: "x" });
  const [lost, first, second] = server.seen.map((seen) => JSON.parse(`${seen.body}`));
  assert.deepEqual(lost, first);
  assert.deepEqual(first, {
    argv: ["cat"],
    cwd: "sub",
    env: { A: "b" },
    stdin_open: true,
    background: true,
    timeout_ms: 2000,
    files: [{ name: "f", text: "x" }],
  });
  assert.deepEqual(second, { shell: "cat", stdin: "x", background: true });
  const keys = server.seen.map((seen) => seen.headers["idempotency-key"]);
  assert(keys[0] === keys[1] && keys[1] !== keys[2]);
});

test("code and commands have surroundings for one call", async (t) => {
  const { server, client } = await fake(t, [js(OUTCOME)]);
  const session = client.attach("s");
  await session.execute("1", { cwd: "d", env: { A: "b" } });
  await session.command(["ls"], { cwd: "d", env: { A: "b" }, queued: true });
  await session.command(["ls"]);
  const bodies = server.seen.map((seen) => JSON.parse(`${seen.body}`));
  assert.deepEqual(bodies, [
    { code: "1", cwd: "d", env: { A: "b" } },
    { argv: ["ls"], cwd: "d", env: { A: "b" }, queued: true },
    { argv: ["ls"] },
  ]);
});

test("nothing is written twice", async (t) => {
  const { server, client, pauses } = await fake(t, [drop]);
  const process = client.attach("s").process("7");
  await assert.rejects(process.write("x"), TransportError);
  server.answers = [problem(429, "stdin_full", { "Retry-After": "1" })];
  await assert.rejects(process.write("x"), QuotaExceeded);
  // Refused before any of it was read.
  server.answers = [problem(429, "too_many_requests"), js({ written_bytes: 2 })];
  assert.equal(await process.write(new Uint8Array([255, 0])), 2);
  assert.equal(pauses.length, 1);
  server.answers = [drop, js({ written_bytes: 0, closed: true })];
  await process.closeStdin();
  const targets = server.seen.map((seen) => seen.target);
  assert.deepEqual(targets.slice(0, 4), Array(4).fill(`${BASE}/stdin`));
  assert.deepEqual(targets.slice(4), Array(2).fill(`${BASE}/stdin?close=true`));
  assert.equal(server.seen[0]?.headers["content-type"], "application/octet-stream");
  assert.deepEqual(server.seen[3]?.body, Buffer.from([255, 0]));
});

test("a process that has ended is sent nothing more", async (t) => {
  const { client } = await fake(t, [problem(409, "not_running")]);
  const process = client.attach("s").process("7");
  assert.equal(await process.kill(), false);
  await process.closeStdin();
  await assert.rejects(process.write("x"), Conflict);
});

test("the end is waited for by the events", async (t) => {
  const { server, client } = await fake(t, [
    RUNNING,
    // The connection breaks, and meanwhile more was printed than is kept.
    sse(...EVENTS.slice(0, 2)),
    problem(410, "events_gone"),
    RUNNING,
    sse(...EVENTS),
    DONE,
  ]);
  const process = client.attach("s").process("7");
  assert.equal((await process.wait()).text, "hello\n");
  const lasts = server.seen.map((seen) => seen.headers["last-event-id"]);
  assert.deepEqual(lasts, [undefined, undefined, "2", undefined, undefined, undefined]);
  server.answers = [sse(...EVENTS)];
  for (const after of [0, 2]) {
    await process.stream({ after }).next();
  }
  const afters = server.seen.slice(-2).map((seen) => seen.headers["last-event-id"]);
  assert.deepEqual(afters, ["0", "2"]);
});

/** The next line, which may come in parts. */
async function nextLine(stream: ReturnType<Process["stream"]>): Promise<string> {
  let line = "";
  while (!line.endsWith("\n")) {
    const { done, value } = await stream.next();
    assert(!done);
    if (value.type === "stdout") {
      line += value.text;
    }
  }
  return line;
}

test("a process runs beside code, and is talked to", needsDaemon, async (t) => {
  const { session } = await real(t);
  const process = await session.start(ECHO, { stdinOpen: true });
  assert.equal(await process.poll(), null);
  const stream = process.stream();
  for (const line of ["one", "two"]) {
    assert.equal(await process.write(`${line}\n`), 4);
    assert.equal(await nextLine(stream), `got ${line}\n`);
  }
  assert.equal((await session.execute("6 * 7")).value?.repr, "42");
  assert.equal((await session.info()).state, "idle");
  await process.closeStdin();
  assert.equal((await stream.wait()).text, "got one\ngot two\nover\n");
  const outcome = await process.wait();
  assert.deepEqual([outcome.text, outcome.exit_code], ["got one\ngot two\nover\n", 0]);
  await assert.rejects(process.write("x"), { code: "not_running" });
  const deaf = await session.start(["sleep", "1000"]);
  await assert.rejects(deaf.write("x"), { code: "no_stdin" });
  await assert.rejects(deaf.closeStdin(), { code: "no_stdin" });
});

test("a process may have a terminal", needsDaemon, async (t) => {
  const { session } = await real(t);
  const shell = "stty -echo; stty size; while read line; do stty size; done; echo over >&2";
  const process = await session.start({ shell }, { stdinOpen: true, pty: { columns: 80, rows: 24 } });
  const stream = process.stream();
  assert.equal(await nextLine(stream), "24 80\r\n");
  await process.resize({ columns: 100, rows: 30 });
  await process.write("\n");
  assert.equal(await nextLine(stream), "30 100\r\n");
  await process.closeStdin();
  assert.match((await stream.wait()).text, /over\r\n$/);
});

test("a command does not wait for code", needsDaemon, async (t) => {
  const { session } = await real(t);
  const code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)";
  const running = session.execute(`${code}\nos.environ['A']`, { env: { A: "b" } });
  await session.command(["touch", "go"]);
  assert.equal((await running).value?.repr, "'b'");
});

test("signals arrive, and a wait may be given up", needsDaemon, async (t) => {
  const { session } = await real(t);
  const shell = "trap 'echo hup' HUP; trap 'exit 3' TERM; echo on; while :; do sleep 0.01; done";
  const process = await session.start({ shell });
  const stream = process.stream();
  assert.equal(await nextLine(stream), "on\n");
  assert.equal(await process.sendSignal("SIGHUP"), true);
  assert.equal(await nextLine(stream), "hup\n");
  const late = process.wait({ signal: AbortSignal.timeout(50) });
  await assert.rejects(late, { name: "TimeoutError" });
  assert.equal(await process.terminate(), true);
  assert.equal((await process.wait()).exit_code, 3);
  assert.equal(await process.terminate(), false);
  const killed = await session.start(["sleep", "1000"]);
  assert.equal(await killed.kill(), true);
  assert.equal((await killed.wait()).cause, "signal");
  await assert.rejects(killed.sendSignal("SIGNONSENSE"), InvalidRequest);
  await assert.rejects(session.process("999").wait(), NotFound);
});

test("another client finds a process by its id", needsDaemon, async (t) => {
  const { session } = await real(t);
  noPauses(t);
  const relay = await Relay.start(await daemon(), [0, 300, 400]);
  t.after(() => relay.close());
  const process = await session.start(ECHO, { stdinOpen: true });
  await process.write("one\n".repeat(1000));
  await process.closeStdin();
  const elsewhere: Session = new Client({ url: relay.url, maxRetries: 4 }).attach(session.id);
  const outcome = await elsewhere.process(process.id).wait();
  assert.equal(outcome.text, `${"got one\n".repeat(1000)}over\n`);
});
