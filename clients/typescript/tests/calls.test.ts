/** Functions of the client's that code calls. */

import assert from "node:assert/strict";
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { test } from "node:test";

import { type Call, type CallEnded, type Event, InvalidRequest, ToolError } from "vivarium-client";

import { needsDaemon } from "./daemon.js";
import { type Answer, fake, message, OUTCOME, problem } from "./fake.js";
import { real } from "./real.js";

const IDS = { execution_id: "1", session_id: "s" };

/** Streams calls, and the end once so many of them are answered. */
function calling(calls: [string, unknown][], refusal?: Answer) {
  const answers: Record<string, unknown> = {};
  let stream: ServerResponse | undefined;
  let handled = 0;
  const answer: Answer = (response, seen) => {
    if (!seen.target.includes("/calls/")) {
      stream = response;
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write(message(1, "started", IDS));
      calls.forEach(([tool, args], index) => {
        const call = { call_id: `${index + 1}`, tool, arguments: args };
        const expires_at = "2026-01-01T12:00:00Z";
        response.write(message(index + 2, "call", { ...IDS, ...call, expires_at }));
      });
      return;
    }
    const last = seen.target.split("/").at(-1) ?? "";
    if (refusal !== undefined && handled === 0) {
      refusal(response, seen);
    } else {
      answers[last] = JSON.parse(seen.body.toString());
      response.writeHead(204).end();
    }
    handled += 1;
    if (Object.keys(answers).length === calls.length) {
      stream?.end(message(99, "done", { ...OUTCOME, stdout: undefined }));
    }
  };
  return { answer, answers };
}

test("calls are answered by functions", async (t) => {
  function look({ table }: { table: string }) {
    return [table, 10];
  }
  const fail = async () => {
    throw new ToolError("no such table", { tables: [] });
  };
  const odd = () => 1n;
  const code = () => look;
  function nothing() {}
  const calls: [string, unknown][] = [
    ["look", { table: "t" }],
    ["fail", {}],
    ["odd", {}],
    ["nothing", {}],
    ["none", {}],
    ["code", {}],
  ];
  const { answer, answers } = calling(calls);
  const { server, client } = await fake(t, [answer]);
  const parameters = { type: "object", properties: { table: { type: "string" } } };
  const described = { name: "look", description: "Looks.", parameters, timeoutMs: 5, maxCalls: 2 };
  const tools = [{ ...described, call: look }, fail, odd, nothing, code];
  const outcome = await client.attach("s").execute("code", { tools, toolsAsGlobals: true });
  assert(outcome.ok);
  const sent = JSON.parse(server.seen[0]?.body.toString() ?? "");
  assert.deepEqual(sent.tools, [
    { name: "look", description: "Looks.", parameters, timeout_ms: 5, max_calls: 2 },
    { name: "fail" },
    { name: "odd" },
    { name: "nothing" },
    { name: "code" },
  ]);
  assert.equal(sent.tools_as_globals, true);
  assert.deepEqual(answers["1"], { result: ["t", 10] });
  assert.deepEqual(answers["2"], { error: { message: "no such table", data: { tables: [] } } });
  assert.match(JSON.stringify(answers["3"]), /TypeError/);
  assert.deepEqual(answers["4"], { result: null });
  assert.match(JSON.stringify(answers["5"]), /no tool/);
  assert.match(JSON.stringify(answers["6"]), /the tool's result is no JSON/);
});

test("what is no tool is refused before it is declared", async (t) => {
  const { client } = await fake(t, []);
  const call = () => 1;
  for (const [tool, why] of [
    [{ name: "a" }, /has no function/],
    [{ name: "a", call, timeout_ms: 5 }, /no "timeout_ms"/],
  ] as const) {
    await assert.rejects(client.attach("s").execute("1", { tools: [tool as never] }), why);
  }
});

test("an answer that the daemon does not take becomes an error", async (t) => {
  const { answer, answers } = calling([["big", {}]], problem(422, "invalid_field"));
  const { client } = await fake(t, [answer]);
  const big = () => "x";
  assert((await client.attach("s").execute("code", { tools: [big] })).ok);
  assert.match(JSON.stringify(answers["1"]), /invalid_field/);
});

test("tools of a session are those of its executions", async (t) => {
  const own = () => "own";
  const other = () => "other";
  const { answer, answers } = calling([
    ["own", {}],
    ["other", {}],
  ]);
  const made: Answer = (response) => {
    response.writeHead(201, { "Content-Type": "application/json" });
    response.end(JSON.stringify({ id: "s" }));
  };
  const { server, client } = await fake(t, [made, answer]);
  const session = await client.session({ tools: [own] });
  assert((await session.execute("code", { tools: [other] })).ok);
  const sent = server.seen.slice(0, 2).map((seen) => JSON.parse(seen.body.toString()).tools);
  assert.deepEqual(sent, [[{ name: "own" }], [{ name: "other" }]]);
  assert.deepEqual(answers, { 1: { result: "own" }, 2: { result: "other" } });
});

test("a tool has a name, and tools are a list", async (t) => {
  const { client } = await fake(t, []);
  const session = client.attach("s");
  await assert.rejects(session.execute("1", { tools: [() => 1] }), /has a name/);
  // @ts-expect-error it is no list
  await assert.rejects(session.execute("1", { tools: once }), /a list/);
});

test("what a tool throws has no text, and is an answer", async (t) => {
  const { answer, answers } = calling([["odd", {}]]);
  const { client } = await fake(t, [answer]);
  const odd = () => {
    throw Object.create(null);
  };
  assert((await client.attach("s").execute("code", { tools: [odd] })).ok);
  assert.deepEqual(answers, { 1: { error: { message: "object" } } });
});

test("servers of tools are asked for", needsDaemon, async (t) => {
  const { client, session } = await real(t);
  const toolServers = ["none-of-these"];
  for (const ask of [
    () => client.session({ toolServers }),
    () => client.run("1", { toolServers }),
    () => session.execute("1", { toolServers }),
  ]) {
    await assert.rejects(ask, (error) => {
      assert(error instanceof InvalidRequest);
      assert.match(error.field ?? "", /^tool_servers/);
      return true;
    });
  }
  assert((await session.execute("1", { toolServers: [] })).ok);
  await assert.rejects(session.execute("1", { toolServers: "none-of-these" }), /a list/);
});

test("code calls functions of this process", needsDaemon, async (t) => {
  const { session } = await real(t);
  const add = ({ a, b }: { a: number; b: number }) => a + b;
  const parameters = {
    type: "object",
    properties: { a: { type: "number" }, b: { type: "number" } },
    required: ["a", "b"],
  };
  const tools = [{ name: "add", parameters, call: add }];
  const code = "from vivarium import tools\n[tools.add(n, b=1) for n in range(3)]";
  assert.equal((await session.execute(code, { tools })).value?.repr, "[1, 2, 3]");
  const refused = await session.execute("tools.add('x', 1)", { tools });
  assert.equal(refused.exception?.type, "vivarium.ToolRefused");
  const form = { maxOutputChars: 100, keep: "head" } as const;
  assert.equal((await session.execute("print('x' * 999)", { tools, ...form })).cuts?.length, 1);
  const events: Event[] = [];
  for await (const event of session.stream("add(1, 2)", { tools, toolsAsGlobals: true })) {
    events.push(event);
  }
  const called = events.find((event): event is Call & Event => event.type === "call");
  assert.deepEqual(called?.arguments, { a: 1, b: 2 });
  const ended = events.find((event): event is CallEnded & Event => event.type === "call_ended");
  assert.equal(ended?.outcome, "result");
});
