/** Requests as they are sent: addresses, headers, bodies. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer as createSecureServer } from "node:https";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Client, TransportError } from "vivarium-client";

import { addressOf } from "../dist/core/address.js";
import { decodeBase64, encodeBase64 } from "../dist/core/base64.js";
import { type Answer, fake, js, OUTCOME } from "./fake.js";

test("an address is a URL or a socket", () => {
  const base = (url: string) => addressOf(url).base;
  assert.equal(base("http://localhost"), "http://localhost:8470");
  assert.equal(base("http://localhost:80"), "http://localhost:80");
  assert.equal(base("http://[::1]:9000/"), "http://[::1]:9000");
  assert.equal(base("https://example.org/vivarium/"), "https://example.org/vivarium");
  for (const url of ["unix:/run/api.sock", "unix:///run/api.sock"]) {
    assert.equal(addressOf(url).socketPath, "/run/api.sock");
  }
  const wrong = ["", "localhost:8470", "ftp://a", "http://a?b", "http://a#b", "unix:a", "unix:/"];
  for (const url of [...wrong, "unix://", "unix:/a\0b"]) {
    assert.throws(() => new Client({ url }), TypeError, url);
  }
  assert.throws(
    () => new Client({ url: "http://user:secret@host" }),
    (error) => error instanceof TypeError && !error.message.includes("secret"),
  );
  assert.throws(() => new Client({ url: "unix:/a", fetch }), TypeError);
  for (const timeoutMs of [0, -1, NaN, 2 ** 31]) {
    assert.throws(() => new Client({ timeoutMs }), RangeError);
  }
});

test("what is not given comes from the environment, then from the default", (t) => {
  const before = { ...process.env };
  t.after(() => {
    process.env = before;
  });
  delete process.env["VIVARIUM_URL"];
  delete process.env["VIVARIUM_TOKEN"];
  assert.equal(new Client().url, "http://127.0.0.1:8470");
  assert.equal(addressOf().token, null);
  process.env["VIVARIUM_URL"] = "unix:/a";
  process.env["VIVARIUM_TOKEN"] = "t";
  assert.deepEqual([new Client().url, addressOf().token], ["unix:/a", "t"]);
  assert.deepEqual(addressOf("http://b", "u").token, "u");
  process.env["VIVARIUM_URL"] = "";
  assert.equal(new Client().url, "http://127.0.0.1:8470");
});

for (const [name, transport] of Object.entries({ node: {}, fetch: { fetch } })) {
  test(`${name}: a request has what was given, and nothing else`, async (t) => {
    const { server } = await fake(t, [js(OUTCOME)]);
    const client = new Client({ url: `${server.url}/base/`, token: "secret", ...transport });
    await client.run("print(1)", { timeoutMs: 1.2, files: { a: "b" }, outputs: ["c"] });
    await client.attach("a b").execute("1", { create: true, idempotencyKey: "key" });
    await client.attach("s").command({ shell: "ls" }, { stdin: new Uint8Array([255]), cwd: "d" });
    const [run, execute, command] = server.seen;
    assert.deepEqual([run?.method, run?.target], ["POST", "/base/v1/run"]);
    assert.equal(run?.headers.authorization, "Bearer secret");
    assert.equal(run?.headers["content-type"], "application/json");
    assert.deepEqual(JSON.parse(`${run?.body}`), {
      code: "print(1)",
      timeout_ms: 2,
      files: [{ name: "a", text: "b" }],
      outputs: [{ name: "c" }],
    });
    assert.equal(execute?.target, "/base/v1/sessions/a%20b/execute?create=true");
    assert.equal(execute?.headers["idempotency-key"], "key");
    assert.deepEqual(JSON.parse(`${execute?.body}`), { code: "1" });
    assert.deepEqual(JSON.parse(`${command?.body}`), { shell: "ls", stdin_base64: "/w==", cwd: "d" });
    for (const timeoutMs of [NaN, Infinity]) {
      await assert.rejects(client.run("1", { timeoutMs }), RangeError);
    }
  });

  test(`${name}: a source that fails ends the upload with its own error`, async (t) => {
    const { client } = await fake(t, [js({})], transport);
    const reason = new Error("the disk is gone");
    async function* parts() {
      yield new Uint8Array(10);
      throw reason;
    }
    await assert.rejects(client.attach("s").files.put("a", parts()), reason);
    const text = ["not bytes"] as unknown as Uint8Array[];
    await assert.rejects(client.attach("s").files.put("a", text), TypeError);
  });
}

test("a large upload that is refused early ends with the refusal", async (t) => {
  const refuse: Answer = (response) => {
    response.writeHead(413, { "Content-Type": "application/problem+json" });
    response.end('{"code": "too_large", "detail": "too large"}');
  };
  const { server, client } = await fake(t, [refuse]);
  server.answersEarly = true;
  let begun = 0;
  async function* endless() {
    for (;;) {
      begun += 1;
      yield new Uint8Array(1 << 16);
    }
  }
  await assert.rejects(client.attach("s").files.put("a", endless()), { code: "too_large" });
  const sent = begun;
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert(begun <= sent + 2, `the source is still read: ${begun - sent}`);
});

test("a refusal is read though the connection is closed on what was sent", async (t) => {
  const body = '{"code": "too_large", "detail": "too large"}';
  const head = `HTTP/1.1 413 Payload Too Large\r\nContent-Length: ${body.length}\r\n\r\n`;
  const server = createServer((socket) => {
    let left = 5 << 20;
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      left -= chunk.length;
      if (left < 0) {
        socket.pause();
        socket.write(head + body, () => socket.destroy());
      }
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = new Client({ url, maxRetries: 0 });
  async function* endless() {
    for (;;) {
      yield new Uint8Array(1 << 20);
    }
  }
  for (let n = 0; n < 20; n += 1) {
    const refused = client.attach("s").files.put("a", endless());
    await assert.rejects(refused, { code: "too_large" });
  }
});

test("an upload that nobody takes ends in the client's time, a slow source does not", async (t) => {
  const { server, client } = await fake(t, [js({ path: "a", files: 1, size_bytes: 2 })], {
    timeoutMs: 1000,
    maxRetries: 0,
  });
  async function* slow() {
    for (let n = 0; n < 2; n += 1) {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      yield new Uint8Array(1);
    }
  }
  await client.attach("s").files.put("a", slow());
  server.readsNothing = true;
  const large = new Uint8Array(50 << 20);
  await assert.rejects(client.attach("s").files.put("a", large), /nothing came for 1000 ms/);
});

test("https is verified before anything is sent", async (t) => {
  const directory = await mkdtemp(join(tmpdir(), "vc"));
  t.after(() => rm(directory, { recursive: true }));
  const request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -keyout key";
  const more = "-out cert -subj /CN=localhost -addext subjectAltName=DNS:localhost";
  const options = { cwd: directory, stdio: "ignore" as const };
  const openssl = spawn("openssl", `${request} ${more}`.split(" "), options);
  const [code] = await once(openssl, "exit").catch(() => [null]);
  if (code !== 0) {
    t.skip("host requirement openssl: to make a certificate");
    return;
  }
  const [key, cert] = await Promise.all(["key", "cert"].map((one) => readFile(join(directory, one))));
  let requests = 0;
  const server = createSecureServer({ key, cert }, (_, response) => {
    requests += 1;
    response.writeHead(200, { "Content-Type": "application/json" }).end('{"version": "1"}');
  });
  server.on("tlsClientError", () => {});
  server.listen(0);
  await once(server, "listening");
  t.after(() => server.close());
  const url = `https://localhost:${(server.address() as AddressInfo).port}`;
  await assert.rejects(new Client({ url, maxRetries: 0 }).host(), (error) => {
    assert(error instanceof TransportError && !error.reached);
    return /self.signed/.test(error.message);
  });
  assert.equal(requests, 0);
  const program = `import { Client } from "vivarium-client";
    const client = new Client({ url: ${JSON.stringify(url)} });
    const hosts = await Promise.all([client.host(), client.host()]);
    console.log(hosts[1].version, (await client.host()).version);`;
  const trusting = { ...process.env, NODE_EXTRA_CA_CERTS: join(directory, "cert") };
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], {
    cwd: new URL("..", import.meta.url),
    env: trusting,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const printed = child.stdout.toArray();
  // It ends by itself: idle connections hold nothing up.
  assert.deepEqual(await once(child, "exit"), [0, null]);
  assert.equal(`${await printed}`, "1 1\n");
});

test("base64 is that of everybody else", () => {
  for (const size of [0, 1, 2, 3, 24_575, 24_576, 24_577, 100_000]) {
    const bytes = new Uint8Array(size).map((_, index) => index * 31);
    const text = Buffer.from(bytes).toString("base64");
    assert.equal(encodeBase64(bytes), text);
    assert.deepEqual(decodeBase64(text), bytes);
  }
  assert.throws(() => decodeBase64("no base64!"), { name: "UnexpectedAnswer" });
});
