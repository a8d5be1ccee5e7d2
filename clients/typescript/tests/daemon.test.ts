/** Against a real daemon: sessions, executions, results and errors. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";

import * as vivarium from "vivarium-client";

import { needsDaemon } from "./daemon.js";
import { committed, generated } from "./generate.js";
import { daemon, real } from "./real.js";

test("the generated types are those of the daemon's document", needsDaemon, async () => {
  const isFresh = (await generated(await daemon())) === (await committed());
  assert(isFresh, "run: npm run generate");
});

test("the host says what it offers", needsDaemon, async (t) => {
  const { client } = await real(t);
  const host = await client.host();
  assert.equal(host.layers.length, 9);
  assert.equal(host.environments[0]?.name, "default");
});

test("a run has output, value and times", needsDaemon, async (t) => {
  const { client } = await real(t);
  const code = "import sys; print('out'); print('err', file=sys.stderr); 6 * 7";
  const outcome = await client.run(code);
  assert.deepEqual([outcome.ok, outcome.status, outcome.state], [true, "ok", "preserved"]);
  assert.deepEqual([outcome.text, outcome.stderr], ["out\n", "err\n"]);
  assert.deepEqual([outcome.value?.repr, outcome.value?.type], ["42", "int"]);
  assert(outcome.duration_ms > 0);
  assert.equal(outcome.raiseForStatus(), outcome);
});

test("outputs are in order as in a notebook", needsDaemon, async (t) => {
  const { session } = await real(t);
  const code = "print('a'); display(1); 6 * 7";
  const outcome = await session.execute(code, { answer: { format: "notebook" } });
  const kinds = outcome.outputs?.map((output) => output.output_type);
  assert.deepEqual(kinds, ["stream", "display_data", "execute_result"]);
  assert.deepEqual([outcome.stdout, outcome.value], ["", null]);
  const kept = await session.execution(outcome.execution_id);
  assert.deepEqual([kept.outcome?.stdout, kept.outcome?.outputs], ["a\n", undefined]);
  const form = { format: "both" } as const;
  const both = await session.execution(outcome.execution_id, { answer: form });
  assert.deepEqual([both.outcome?.stdout, both.outcome?.outputs], ["a\n", outcome.outputs]);
});

test("a stream ends with the outputs of a plain answer", needsDaemon, async (t) => {
  const { session } = await real(t);
  const codes = [
    `import sys, time
print('a'); time.sleep(0.05); print('b', file=sys.stderr); time.sleep(0.05); print('c\\n')
display({'text/html': '<b>', 'application/json': '{"a": [1.5]}', 'application/x+json': 'NaN',
         'image/png': b'png'}, raw=True)
again = display(1, display_id='x'); print('d'); again.update(2)
display({'application/json': '[' * 101 + ']' * 101, 'application/a+json': '[' * 100 + ']' * 100},
        raw=True)
display({'application/json': '1' * 5000, 'application/a+json': '"\\\\ud800"'}, raw=True)
[1]`,
    `from IPython.display import clear_output
print('gone'); display('gone'); clear_output(); print('kept'); display('kept'); 1 / 0`,
  ];
  for (const code of codes) {
    const streamed = await (await session.stream(code)).wait();
    const answer = { format: "both" } as const;
    const plain = (await session.execution(streamed.execution_id, { answer })).outcome;
    assert((plain?.outputs?.length ?? 0) > 2);
    assert.deepEqual(streamed.outputs, plain?.outputs);
    assert.deepEqual([streamed.displays, streamed.images], [plain?.displays, plain?.images]);
  }
});

test("long texts are cut as asked", needsDaemon, async (t) => {
  const { session } = await real(t);
  const form = { maxOutputChars: 200, keep: "tail" } as const;
  const outcome = await session.execute("print('x' * 10_000)", form);
  assert(outcome.stdout.length <= 200);
  const [cut] = outcome.cuts ?? [];
  assert.equal(cut?.part, "stdout");
  assert.equal((cut?.kept_chars ?? 0) + (cut?.dropped_chars ?? 0), 10_001);
  const kept = await session.execution(outcome.execution_id);
  assert.equal(kept.outcome?.stdout.length, 10_001);
  const again = await session.execution(outcome.execution_id, form);
  assert.equal(again.outcome?.stdout, outcome.stdout);
});

test("a part told by its size is fetched", needsDaemon, async (t) => {
  const { session } = await real(t);
  const code = "print('x' * 1000)\ndisplay({'text/html': '<b>', 'image/png': b'png'}, raw=True)";
  const outcome = await session.execute(code, { answer: { content: "sizes" } });
  assert.equal(outcome.stdout, "");
  assert.deepEqual(outcome.displays[0]?.sizes, { "image/png": 3, "text/html": 3 });
  const id = outcome.execution_id;
  const text = async (part: string, mimeType?: string) =>
    new TextDecoder().decode(await session.output(id, part, { mimeType }));
  assert.equal(await text("stdout"), "x".repeat(1000) + "\n");
  assert.equal(await text("displays/0", "image/png"), "png");
  await assert.rejects(session.output(id, "displays/1"), vivarium.NotFound);
});

test("reprs are as long as asked for", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  const options = { repr: { max_items: 2 } };
  const outcomes = [
    await session.execute("list(range(9))", options),
    await client.run("list(range(9))", options),
  ];
  assert.deepEqual(outcomes.map((outcome) => outcome.value?.repr), ["[0, 1, ...]", "[0, 1, ...]"]);
});

test("sizes may come without content", needsDaemon, async (t) => {
  const { session } = await real(t);
  const code = "print('é'); display({'image/png': b'1234'}, raw=True); 6 * 7";
  const options = { answer: { content: "sizes" } } as const;
  for (const outcome of [
    await session.execute(code, options),
    await session.stream(code, options).wait(),
  ]) {
    assert.deepEqual([outcome.value?.repr, outcome.value?.size_bytes], ["", 2]);
    assert.deepEqual(outcome.displays, [{ sizes: { "image/png": 4 }, mime: {} }]);
    assert.equal(outcome.stdout_bytes, 3);
  }
});

test("a run takes everything that it documents", needsDaemon, async (t) => {
  const { client } = await real(t);
  const outcome = await client.run(
    "import os\n(open('a').read(), open('d/b', 'rb').read(), open('c').read(), os.environ['E'])",
    {
      files: { a: "é\n", "d/b": new Uint8Array([0, 255]), c: new Blob(["blob"]) },
      env: { E: "1" },
      limits: { max_procs: 8, cpu_cores: 0.5 },
      network: "none",
      environment: "default",
      timeoutMs: 20_000,
      idempotencyKey: randomUUID(),
    },
  );
  assert.equal(outcome.value?.repr, String.raw`('é\n', b'\x00\xff', 'blob', '1')`);
});

test("a run takes a command, a line of shell and standard input", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  assert.equal((await client.run(["echo", "-n", "a b"])).text, "a b");
  assert.equal((await client.run({ shell: "sort -r | head -1" }, { stdin: "a\nb\n" })).text, "b\n");
  const bytes = { stdin: new Uint8Array([1, 2, 3]) };
  assert.equal((await session.command(["wc", "-c"], bytes)).text.trim(), "3");
  await session.command(["mkdir", "sub"]);
  assert.equal((await session.command(["pwd"], { cwd: "sub" })).text.trim().split("/").at(-1), "sub");
});

test("variables survive from call to call, and a reset loses them", needsDaemon, async (t) => {
  const { session } = await real(t);
  await session.execute("x = 41");
  assert.equal((await session.execute("x + 1")).value?.repr, "42");
  await session.reset();
  assert.equal((await session.execute("x")).exception?.type, "NameError");
});

test("an exception is an outcome, and raiseForStatus throws it", needsDaemon, async (t) => {
  const { session } = await real(t);
  const outcome = await session.execute("def f():\n    return 1 / 0\n\nf()");
  assert.throws(
    () => outcome.raiseForStatus(),
    (error) => {
      assert(error instanceof vivarium.CodeError);
      assert.equal(error.exception.type, "ZeroDivisionError");
      assert.match(error.message, /^ZeroDivisionError: division by zero\n[^]*return 1 \/ 0/);
      return error.outcome === outcome;
    },
  );
});

test("each end of code has an error of its own", needsDaemon, async (t) => {
  const { session } = await real(t);
  const late = await session.execute("while True: pass", { timeoutMs: 200 });
  assert.throws(() => late.raiseForStatus(), vivarium.TimedOut);
  const dead = await session.execute("import os; os.kill(os.getpid(), 9)");
  assert.throws(() => dead.raiseForStatus(), vivarium.Killed);
  assert.deepEqual([dead.cause, dead.state], ["signal", "lost"]);
  const failed = await session.command({ shell: "echo why >&2; exit 3" });
  assert.throws(() => failed.raiseForStatus(), /^CommandFailed: exit code 3: why$/);
  const next = await session.execute("1");
  assert.deepEqual([next.kernel?.generation, next.kernel?.previous_end?.cause], [2, "signal"]);
});

async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const value of values) {
    found.push(value);
  }
  return found;
}

test("a session is changed, found and asked for its executions", needsDaemon, async (t) => {
  const { client } = await real(t);
  const deadline = new Date(Date.now() + 3_600_000);
  await using session = await client.session({ metadata: { a: "1", b: "2" }, deadline });
  assert.equal(Date.parse((await session.info()).deadline ?? ""), deadline.getTime());
  const changes = { metadata: { a: null, c: "x y" }, idleTimeoutMs: 60_000, deadline: null };
  const info = await session.update({ ...changes, limits: { max_output_bytes: 10 } });
  assert.deepEqual([info.metadata, info.idle_timeout_ms], [{ b: "2", c: "x y" }, 60_000]);
  assert.deepEqual([info.deadline, info.limits.max_output_bytes], [null, 10]);
  const found = await all(client.sessions({ state: "idle", metadata: { c: "x y" } }));
  assert.deepEqual(found.map((one) => one.id), [session.id]);
  await session.execute("1");
  await session.command(["true"]);
  const executions = await all(session.executions());
  const kinds = executions.map((one) => [one.id, one.kind, one.status]);
  assert.deepEqual(kinds, [["2", "command", "ok"], ["1", "code", "ok"]]);
  await assert.rejects(session.update({ limits: { max_output_bytes: 11 } }), vivarium.InvalidRequest);
});

test("a session is as it was asked for, and gone when deleted", needsDaemon, async (t) => {
  const { client } = await real(t);
  const session = await client.session({
    id: "as-asked",
    limits: { max_memory_mb: 256 },
    network: "none",
    env: { A: "b" },
    idleTimeoutMs: 600_000,
    metadata: { for: "a test" },
  });
  const info = await session.info();
  assert.deepEqual([info.id, info.network, info.metadata], ["as-asked", "none", { for: "a test" }]);
  assert.equal((await session.execute("import os; os.environ['A']")).value?.repr, "'b'");
  assert((await session.keepalive()).expires_at >= info.expires_at);
  assert.equal((await session.interrupt()).interrupted, false);
  await assert.rejects(session.preview(8000), vivarium.Conflict);
  await assert.rejects(client.session({ id: "as-asked" }), vivarium.Conflict);
  const ids: string[] = [];
  for await (const one of client.sessions()) {
    ids.push(one.id);
  }
  assert(ids.includes("as-asked"));
  assert.equal(await session.delete(), true);
  assert.equal(await session.delete(), false);
  await assert.rejects(session.info(), vivarium.NotFound);
});

test("disposal deletes what session() made, and nothing else", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  await client.attach(session.id)[Symbol.asyncDispose]();
  assert.equal((await session.info()).id, session.id);
  const own = await client.session();
  await own[Symbol.asyncDispose]();
  await assert.rejects(own.info(), vivarium.NotFound);
});

test("await using deletes a session", needsDaemon, async (t) => {
  const { client } = await real(t);
  let id: string;
  {
    await using session = await client.session();
    id = session.id;
  }
  await assert.rejects(client.attach(id).info(), vivarium.NotFound);
});

test("the first execution may create the session", needsDaemon, async (t) => {
  const { client } = await real(t);
  const attached = client.attach("made-by-execute");
  await assert.rejects(attached.execute("1"), { code: "unknown_session", status: 404 });
  assert.equal((await attached.execute("1", { create: true })).session_created, true);
  assert.equal(await attached.delete(), true);
});

test("a refusal names the field", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  const cases: [() => Promise<unknown>, string][] = [
    [() => client.session({ limits: { max_memory_mb: "unlimited" } }), "limits.max_memory_mb"],
    [() => client.session({ network: "full" }), "network"],
    [() => client.session({ id: "a/b" }), "id"],
    [() => session.execute("1", { timeoutMs: 0 }), "timeout_ms"],
    [() => session.execute("1", { files: { "../a": "" } }), "files[0].name"],
  ];
  for (const [refused, field] of cases) {
    await assert.rejects(refused(), (error) => {
      assert(error instanceof vivarium.InvalidRequest);
      assert.deepEqual([error.code, error.field], ["invalid_field", field]);
      return true;
    });
  }
});

test("a second request with a key is the first", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  await session.execute("n = 0");
  const idempotencyKey = randomUUID();
  const first = await session.execute("n += 1; n", { idempotencyKey });
  assert.deepEqual(await session.execute("n += 1; n", { idempotencyKey }), first);
  const again = session.execute("n += 2", { idempotencyKey });
  await assert.rejects(again, { code: "idempotency_key_reused" });
  const creation = { idempotencyKey: randomUUID() };
  const made = await client.session(creation);
  assert.equal((await client.session(creation)).id, made.id);
  await made.delete();
});

test("outputs come back as bytes and as text", needsDaemon, async (t) => {
  const { session } = await real(t);
  const outcome = await session.execute(
    String.raw`open('a.txt', 'w').write('é'); open('b.bin', 'wb').write(b'\xff\0')`,
    { outputs: ["a.txt", { name: "b.bin", format: "base64" }, "gone"] },
  );
  assert.equal(outcome.fileText("a.txt"), "é");
  assert.deepEqual(outcome.fileBytes("b.bin"), new Uint8Array([255, 0]));
  assert.throws(() => outcome.fileBytes("gone"), /^OutputFileError: gone: /);
  assert.throws(() => outcome.fileBytes("other"), vivarium.OutputFileError);
  assert.deepEqual(outcome.files_changed.map((file) => file.name).sort(), ["a.txt", "b.bin"]);
});

test("completion and inspection index the string as JavaScript does", needsDaemon, async (t) => {
  const { session } = await real(t);
  await session.execute("def twice(number):\n    'Twice as much.'\n    return 2 * number\n");
  // Two code units of JavaScript, one character of Python.
  const code = "'🐍'; twi";
  const { start, end, matches } = await session.complete(code);
  assert.equal(code.slice(start, end), "twi");
  assert(matches.some((match) => match.text.startsWith("twice")));
  const before = await session.complete(`${code} + 1`, { cursor: code.length });
  assert.deepEqual([before.start, before.end], [start, end]);
  const inspection = await session.inspect("twice(", { cursor: 3 });
  assert.deepEqual([inspection.found, inspection.docstring], [true, "Twice as much."]);
});

test("code has a file's name, and a prompt knows when it is complete", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  const options = { filename: "sub/script.py", files: { "sub/beside.py": "x = 7" } };
  const named = await client.run("import beside; beside.x / 0", {
    ...options,
    files: { ...options.files, "sub/script.py": "" },
  });
  assert.match(named.exception?.traceback ?? "", /sub\/script\.py", line 1/);
  assert.equal(named.exception?.type, "ZeroDivisionError");
  const failed = await session.execute("1 / 0", { filename: "cell.py" });
  assert.match(failed.exception?.traceback ?? "", /cell\.py", line 1/);
  assert.deepEqual(await session.isComplete("if x:"), { status: "incomplete", indent: "    " });
  assert.equal((await session.isComplete("1")).status, "complete");
  const [tenant] = await client.tenants();
  assert.equal(tenant?.name, "default");
});

test("an aborted call ends at once, and its code if that was asked", needsDaemon, async (t) => {
  const { session } = await real(t);
  const running = new AbortController();
  const stream = session.stream("print('on', flush=True)\nwhile True: pass", {
    cancelOnDisconnect: true,
    signal: running.signal,
  });
  for await (const event of stream) {
    if (event.type === "stdout") {
      break;
    }
  }
  const { executionId } = stream;
  assert(executionId);
  const waiting = new AbortController();
  const call = session.execute("1", { signal: waiting.signal });
  waiting.abort();
  await assert.rejects(call, { name: "AbortError" });
  // To follow the execution would make it one with a client again.
  let execution = await session.execution(executionId);
  while (execution.state !== "done") {
    execution = await session.execution(executionId);
  }
  assert.equal(execution.outcome?.status, "interrupted");
});

test("calls in parallel are answered each with its own", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  await session.execute("x = 0");
  const runs = [0, 1, 2].map((n) => client.run(`print(${n})`));
  const executions = [0, 1, 2].map(() => session.execute("x += 1; x"));
  assert.deepEqual((await Promise.all(runs)).map((run) => run.text), ["0\n", "1\n", "2\n"]);
  const values = (await Promise.all(executions)).map((one) => one.value?.repr);
  assert.deepEqual(values.sort(), ["1", "2", "3"]);
});
