/** Servers that cut, stall, redirect and send garbage; with both transports. */

import assert from "node:assert/strict";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { test } from "node:test";

import { Client, type Event, TransportError, UnexpectedAnswer, VivariumError } from "vivarium-client";

import { type Answer, drop, EVENTS, fake, js, message, OUTCOME, problem, sse } from "./fake.js";

/** With `node:http`, and with `fetch` as in a browser. */
const TRANSPORTS = { node: {}, fetch: { fetch } };

for (const [name, transport] of Object.entries(TRANSPORTS)) {
  test(`${name}: a stream that is cut after any byte continues where it was`, async (t) => {
    // Answers with a stream's first bytes; then, once it has started, with what was asked for.
    let cut = 0;
    const stream: Answer = (response, seen) => {
      const after = Number(seen.headers["last-event-id"] ?? 0);
      const bytes = Buffer.from(EVENTS.slice(after).join(""));
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      // A cut that comes before the next event's end makes no progress: then more is sent.
      response.write(bytes.subarray(0, cut), () => response.destroy());
      cut += cut < 70 ? 1 : 20;
    };
    const { client } = await fake(t, [stream], { maxRetries: 1000, ...transport });
    for (const start of [0, 30, 60, 90, 120, 150, 200, 400]) {
      cut = start;
      const events: Event[] = [];
      for await (const event of client.stream("1")) {
        events.push(event);
      }
      assert.deepEqual(events.map((event) => event.number), [1, 2, 3, 4], `from ${start}`);
      const [last] = events.slice(-1);
      assert(last?.type === "done" && last.outcome.text === "hello\n");
    }
  });

  test(`${name}: a stream that makes no progress ends`, async (t) => {
    const { server, client } = await fake(t, [sse(EVENTS[0] ?? "")], transport);
    await assert.rejects(client.stream("1").wait(), /ended before the execution did/);
    assert.equal(server.seen.length, 3);
    assert.equal(server.seen[1]?.target, "/v1/sessions/s/executions/1");
    assert.equal(server.seen[1]?.headers["last-event-id"], "1");
  });

  test(`${name}: events that are repeated or numbered wrong are not yielded twice`, async (t) => {
    const { client } = await fake(t, [sse(...EVENTS.slice(0, 2), ...EVENTS)], transport);
    const events: Event[] = [];
    for await (const event of client.stream("1")) {
      events.push(event);
    }
    assert.equal(events.length, 4);
  });

  test(`${name}: an event of another kind is passed on`, async (t) => {
    const odd = message(5, "weather", { rain: true });
    const done = message(6, "done", { ...OUTCOME, status: "tired", weather: [1], raiseForStatus: 1 });
    const { client } = await fake(t, [sse(...EVENTS.slice(0, 3), odd, done)], transport);
    const stream = client.stream("1");
    const others: unknown[] = [];
    for await (const event of stream) {
      if (event.type === "other") {
        others.push([event.kind, event.data, event.number]);
      }
    }
    assert.deepEqual(others, [["weather", '{"rain":true}', 5]]);
    assert.throws(() => stream.outcome?.raiseForStatus(), { name: "ExecutionError" });
    assert.deepEqual(Reflect.get(stream.outcome ?? {}, "weather"), [1]);
  });

  test(`${name}: garbage in a stream is an error, and is not asked for again`, async (t) => {
    const garbage = [
      "id: x\ndata: {}\n\n",
      "id: -1\ndata: {}\n\n",
      `id: ${"9".repeat(30)}\ndata: {}\n\n`,
      "id: 1\nevent: stdout\ndata: {\n\n",
      "id: 1\nevent: stdout\ndata: [1]\n\n",
      "id: 1\nevent: stdout\ndata: {}\n\n",
      "id: 1\nevent: started\ndata: {}\n\n",
      "id: 1\nevent: display\ndata: {\"kind\": \"image\", \"mime\": 5}\n\n",
      "id: 1\nevent: result\ndata: null\n\n",
      "id: 1\nevent: error\ndata: {\"type\": 1}\n\n",
      "id: 1\nevent: done\ndata: {\"status\": {}}\n\n",
      "id: 1\nevent: done\ndata: {\"status\": \"ok\", \"files\": {}}\n\n",
    ];
    for (const text of garbage) {
      const { server, client } = await fake(t, [sse(text)], transport);
      await assert.rejects(client.stream("1").wait(), UnexpectedAnswer, text);
      assert.equal(server.seen.length, 1);
    }
    const noise = new Uint8Array(100_000).map((_, index) => (index * 31) % 251);
    const { client } = await fake(t, [sse(noise)], transport);
    await assert.rejects(client.stream("1").wait(), VivariumError);
  });

  test(`${name}: an answer of another type is an error`, async (t) => {
    const html: Answer = (response) => {
      response.writeHead(200, { "Content-Type": "text/html" }).end("<h1>Welcome</h1>");
    };
    const wrong = [html, js([]), js(null), js("x"), js({}), js({ ...OUTCOME, stdout: 1 })];
    for (const answer of wrong) {
      const { server, client } = await fake(t, [answer], transport);
      await assert.rejects(client.run("1"), UnexpectedAnswer);
      await assert.rejects(client.stream("1").wait(), UnexpectedAnswer);
      assert.equal(server.seen.length, 2);
    }
    for (const answer of [js([]), js({}), js({ sessions: {} }), html]) {
      const { client } = await fake(t, [answer], transport);
      await assert.rejects(client.session(), UnexpectedAnswer);
      await assert.rejects(client.sessions().next(), UnexpectedAnswer);
      await assert.rejects(client.host(), UnexpectedAnswer);
    }
    const { client } = await fake(t, [js({ a: 1 })], transport);
    await assert.rejects(client.attach("s").files.get("a", { offset: 1 }), /asked for a part/);
  });

  test(`${name}: a refusal without a problem has the status and the text`, async (t) => {
    const page: Answer = (response) => {
      const text = `<h1>Bad gateway</h1>${"x".repeat(5000)}`;
      response.writeHead(502, { "Content-Type": "text/html" }).end(text);
    };
    const { client } = await fake(t, [page], transport);
    await assert.rejects(client.host(), (error: Error & { detail?: string }) => {
      assert.equal(error.name, "ServerError");
      assert.match(error.message, /^<h1>Bad gateway<\/h1>x+ \(502 http_502\)$/);
      return error.detail?.length === 200;
    });
    const { client: other } = await fake(t, [js([1], 404)], transport);
    await assert.rejects(other.host(), { name: "NotFound", code: "http_404" });
    const { client: third } = await fake(t, [problem(422, "invalid_field")], transport);
    await assert.rejects(third.host(), { name: "InvalidRequest", field: "a.b" });
  });

  test(`${name}: a redirection is not followed, so the token stays`, async (t) => {
    const elsewhere = await fake(t, [js(OUTCOME)]);
    for (const status of [301, 302, 303, 307, 308]) {
      for (const location of [`${elsewhere.server.url}/v1/run`, "/v1/other"]) {
        const redirect: Answer = (response) => response.writeHead(status, { location }).end();
        const { server, client } = await fake(t, [redirect], { token: "secret", ...transport });
        await assert.rejects(client.run("1"), /redirections are not followed/);
        await assert.rejects(client.stream("1").wait(), /redirections are not followed/);
        assert.equal(server.seen.length, 2);
        assert.equal(server.seen[0]?.headers.authorization, "Bearer secret");
      }
    }
    assert.equal(elsewhere.server.seen.length, 0);
  });

  test(`${name}: a token is in no error and in nothing that is printed`, async (t) => {
    const { client } = await fake(t, [drop], { token: "secret", maxRetries: 0, ...transport });
    await assert.rejects(client.run("1"), (error) => {
      assert(!inspect(error, { depth: 20, showHidden: true }).includes("secret"));
      return error instanceof TransportError;
    });
    assert(!inspect([client, client.attach("s")], { depth: 20 }).includes("secret"));
  });

  test(`${name}: silence ends a call, before the answer and within`, async (t) => {
    const silent: Answer = () => {};
    const half: Answer = (response) => {
      response.writeHead(200, { "Content-Type": "application/json" }).write("{");
    };
    for (const answer of [silent, half]) {
      const options = { timeoutMs: 100, maxRetries: 0, ...transport };
      const { client } = await fake(t, [answer], options);
      await assert.rejects(client.host(), /nothing came for 100 ms/);
      await assert.rejects(client.attach("s").files.get("a"), TransportError);
      // Code may take longer: only its caller ends it.
      const call = new AbortController();
      setTimeout(() => call.abort(), 300);
      await assert.rejects(client.run("1", { signal: call.signal }), { name: "AbortError" });
    }
  });

  test(`${name}: a slow body is read as long as something comes`, async (t) => {
    const slow: Answer = (response) => {
      response.writeHead(200, { "Content-Type": "application/json" });
      const bytes = [...JSON.stringify({ version: "1", slow: "x".repeat(20) })];
      const timer = setInterval(() => {
        const byte = bytes.shift();
        if (byte !== undefined) {
          response.write(byte);
        } else {
          clearInterval(timer);
          response.end();
        }
      }, 60);
    };
    const { client } = await fake(t, [slow], { timeoutMs: 2000, maxRetries: 0, ...transport });
    assert.equal((await client.host()).version, "1");
  });

  test(`${name}: an aborted signal ends calls before, while and after they are sent`, async (t) => {
    const silent: Answer = () => {};
    const { server, client } = await fake(t, [silent], transport);
    const reason = new Error("enough");
    const done = AbortSignal.abort(reason);
    await assert.rejects(client.run("1", { signal: done }), reason);
    await assert.rejects(client.stream("1", { signal: done }).wait(), reason);
    assert.equal(server.seen.length, 0);
    const call = new AbortController();
    const options = { signal: call.signal };
    const calls = [client.run("1", options), client.stream("1", options).wait()];
    setTimeout(() => call.abort(reason), 50);
    for (const one of await Promise.allSettled(calls)) {
      assert(one.status === "rejected" && one.reason === reason);
    }
  });

  test(`${name}: closing a stream ends whoever waits for it`, async (t) => {
    const endless: Answer = (response) => {
      response.writeHead(200, { "Content-Type": "text/event-stream" }).write(EVENTS[0]);
    };
    const { client } = await fake(t, [endless], transport);
    const stream = client.stream("1");
    assert.equal((await stream.next()).value?.type, "started");
    const waiting = stream.next();
    await stream.close();
    assert.equal((await waiting).done, true);
    assert.equal((await stream.next()).done, true);
    const unused = client.stream("1");
    await unused.close();
    assert.equal((await unused.next()).done, true);
  });

  test(`${name}: what is no HTTP is a broken connection`, async (t) => {
    const short = "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}";
    for (const bytes of ["SSH-2.0-OpenSSH\r\n", short, "\0".repeat(100)]) {
      const server = createServer((socket) => {
        socket.on("error", () => {});
        socket.end(bytes);
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      t.after(() => server.close());
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const client = new Client({ url, maxRetries: 0, ...transport });
      await assert.rejects(client.host(), TransportError, bytes);
      await assert.rejects(client.stream("1").wait(), VivariumError, bytes);
    }
  });

  test(`${name}: names in a document reach nobody's prototype`, async (t) => {
    const body = `{"status": "ok", "__proto__": {"polluted": 1}, "constructor": 2, "ok": false}`;
    const evil: Answer = (response) => {
      response.writeHead(200, { "Content-Type": "application/json" }).end(body);
    };
    const { client } = await fake(t, [evil], transport);
    const outcome = await client.run("1");
    assert.equal(outcome.ok, true);
    assert.equal(Reflect.get({}, "polluted"), undefined);
    assert.equal(Reflect.get(outcome, "polluted"), undefined);
  });
}
