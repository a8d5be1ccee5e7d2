/** A `vivarium serve` of the tests' own, and a relay to it whose connections can be cut. */

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BINARY = process.env["VIVARIUM_BIN"];

/** Options of a test that needs a daemon: without one it is skipped, or fails if required. */
export const needsDaemon = { skip: BINARY ? false : lacks("a built vivarium in VIVARIUM_BIN") };

function lacks(what: string): string {
  const required = (process.env["VIVARIUM_TEST_REQUIRE"] ?? "").split(",");
  assert(!required.includes("vivarium"), `vivarium is required, and missing: ${what}`);
  return `host requirement vivarium: ${what}`;
}

/** A daemon on a Unix socket in a directory that its user can reach. */
export class Daemon {
  private constructor(
    readonly socketPath: string,
    private readonly directory: string,
    private readonly process: ChildProcess,
    private readonly log: string[],
  ) {}

  get url(): string {
    return `unix:${this.socketPath}`;
  }

  /** Starts it, with more lines for its environment. */
  static async start(more = ""): Promise<Daemon> {
    // A socket's path has at most 107 bytes.
    const directory = await mkdtemp(join(tmpdir(), "vc"));
    // Started as root, the daemon becomes another user.
    await chmod(directory, 0o755);
    const socketPath = join(directory, "api.sock");
    const config = join(directory, "vivarium.toml");
    await writeFile(
      config,
      `[server]\nlisten = ["unix:${socketPath}"]\n` +
        `state_dir = "${directory}/state"\nruntime_dir = "${directory}/run"\n` +
        `[environments.default]\ninterpreter = "/usr/bin/python3"\n${more}`,
      { mode: 0o644 },
    );
    const daemon = spawn(BINARY ?? "vivarium", ["serve", "--config", config], {
      env: { PATH: process.env["PATH"] },
      stdio: ["ignore", "ignore", "pipe"],
    });
    const log: string[] = [];
    const lines = createInterface(daemon.stderr);
    const ready = new Promise<void>((resolve, reject) => {
      lines.on("line", (line) => {
        log.push(line);
        if (line.includes("listen=")) {
          resolve();
        }
      });
      daemon.on("error", reject);
      daemon.on("exit", () => reject(new Error(`the daemon did not start:\n${log.join("\n")}`)));
    });
    await ready;
    return new Daemon(socketPath, directory, daemon, log);
  }

  /** Stops it as a service manager does. */
  async stop(): Promise<void> {
    const exit = once(this.process, "exit");
    this.process.kill("SIGTERM");
    const [code] = await exit;
    await rm(this.directory, { recursive: true });
    assert.equal(code, 0, this.log.join("\n"));
  }
}

/**
 * Passes connections on to a daemon, from TCP. Each of the first ends after as many bytes of
 * answers as `cuts` says.
 */
export class Relay {
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(socketPath: string, cuts: readonly number[]) {
    this.#server = createServer((client) => {
      let left = cuts[this.connections] ?? Infinity;
      this.connections += 1;
      const daemon = connect(socketPath);
      const end = () => [client, daemon].forEach((socket) => socket.destroy());
      for (const socket of [client, daemon]) {
        this.#sockets.add(socket);
        socket.on("error", end).on("close", end);
      }
      client.on("data", (chunk) => daemon.write(chunk));
      daemon.on("data", (chunk: Buffer) => {
        const passed = chunk.subarray(0, left);
        left -= chunk.length;
        client.write(passed, () => left <= 0 && end());
      });
    });
  }

  static async start(daemon: Daemon, cuts: readonly number[]): Promise<Relay> {
    const relay = new Relay(daemon.socketPath, cuts);
    relay.#server.listen(0, "127.0.0.1");
    await once(relay.#server, "listening");
    return relay;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.close();
    this.#sockets.forEach((socket) => socket.destroy());
  }
}
