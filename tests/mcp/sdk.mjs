// Drives an MCP server with a TypeScript SDK, which validates the answers: `v1`, `v2` or `v2-legacy`, and a
// URL or a command.
import assert from "node:assert/strict";

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const [sdk, target, ...args] = process.argv.slice(2);
const token = process.env.VIVARIUM_TOKEN;

const [{ Client }, { StreamableHTTPClientTransport }, { StdioClientTransport }] = await Promise.all(
  sdk === "v1"
    ? ["index", "streamableHttp", "stdio"].map((name) => import(`@modelcontextprotocol/sdk/client/${name}.js`))
    : ["client", "client", "client/stdio"].map((name) => import(`@modelcontextprotocol/${name}`)),
);

/** v1 takes a schema between parameters and options. */
const call = (client, name, args, options) =>
  client.callTool({ name, arguments: args }, ...(sdk === "v1" ? [undefined, options] : [options]));
const text = (result) => result.content.map((item) => item.text ?? "").join("");

async function tour(client) {
  const names = (await client.listTools()).tools.map((tool) => tool.name);
  for (const name of ["run_python", "run_command", "write_file", "read_file", "list_files", "list_sessions",
    "reset_session", "end_session"]) assert(names.includes(name), name);

  const first = await call(client, "run_python", { code: "x = 41" });
  const { session } = first.structuredContent;
  const seen = [];
  const code = "import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.2)\nx + 1";
  const second = await call(client, "run_python", { code, session }, { onprogress: (it) => seen.push(it.message) });
  assert.deepEqual(second.structuredContent.result, { type: "int", repr: "42" });
  assert.equal(second.structuredContent.stdout, "0\n1\n2\n");
  // What comes last is in the answer alone.
  assert(seen.length > 0 && "0\n1\n2\n".startsWith(seen.join("")), JSON.stringify(seen));

  const figure = `
import base64
class Figure:
    def _repr_png_(self): return base64.b64decode("${PNG}")
display(Figure())
open("a b.csv", "w").write("1,2")
`;
  const third = await call(client, "run_python", { code: figure, session });
  assert.deepEqual(third.content.filter((item) => item.type === "image").map((item) => item.data), [PNG]);
  const link = third.content.find((item) => item.type === "resource_link");
  assert.equal((await client.readResource({ uri: link.uri })).contents[0].text, "1,2");
  assert((await client.listResources()).resources.some((resource) => resource.uri === link.uri));
  assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 1);

  for (const [args, expected] of [
    [{ code: "1 / 0", session }, "ZeroDivisionError"],
    [{ code: "1", session: "none" }, "unknown_session"],
    [{ kode: "1" }, "kode"],
  ]) {
    const result = await call(client, "run_python", args);
    assert(result.isError && text(result).includes(expected), JSON.stringify(result));
  }
  await assert.rejects(call(client, "no_such_tool", {}), (error) => error.code === -32602);

  for (const [name, args] of [
    ["run_command", { command: "cat", stdin: "in", session }],
    ["write_file", { path: "c", text: "c", session }],
    ["read_file", { path: "c", session }],
    ["list_files", { session }],
    ["list_sessions", {}],
    ["reset_session", { session }],
  ]) assert(!(await call(client, name, args)).isError, name);
  return session;
}

/** Code ends when its caller gives up, and its session is free. */
async function cancelled(client, session) {
  const gaveUp = new AbortController();
  const code = "open('began', 'w').close()\nwhile True: pass";
  const running = call(client, "run_python", { code, session }, { signal: gaveUp.signal });
  const ended = assert.rejects(running);
  for (let began = false; !began;) {
    const listed = await call(client, "list_files", { session });
    began = listed.structuredContent.files.some((file) => file.path === "began");
  }
  gaveUp.abort();
  await ended;
  // It waits behind the code, which would run for 30 s.
  const after = await call(client, "run_python", { code: "1", session }, { timeout: 15_000 });
  assert(!after.isError, JSON.stringify(after));
}

const headers = token ? { Authorization: `Bearer ${token}` } : {};
const variables = Object.entries({ PATH: process.env.PATH, VIVARIUM_TOKEN: token }).filter(([, value]) => value);
const transport = target.includes("://")
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } })
  : new StdioClientTransport({ command: target, args, env: Object.fromEntries(variables) });
let version;
const set = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (it) => {
  version = it;
  set?.(it);
};
const options = sdk === "v2" ? { versionNegotiation: { mode: "auto" } } : {};
const client = new Client({ name: "judge", version: "0" }, options);
await client.connect(transport);
const session = await tour(client);
await cancelled(client, session);
assert(!(await call(client, "end_session", { session })).isError);
console.log(version);
await client.close();
