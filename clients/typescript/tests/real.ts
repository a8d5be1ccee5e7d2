/** The daemon that the tests of a file share. */

import { after, type TestContext } from "node:test";

import { Client, type Session } from "vivarium-client";

import { Daemon } from "./daemon.js";

let running: Promise<Daemon> | undefined;

/** Returns this file's daemon, which ends after its tests. */
export function daemon(): Promise<Daemon> {
  running ??= Daemon.start();
  return running;
}

after(async () => (await running)?.stop());

/** Returns a client of the daemon, and a session that ends with the test. */
export async function real(test: TestContext): Promise<{ client: Client; session: Session }> {
  const client = new Client({ url: (await daemon()).url });
  const session = await client.session();
  test.after(() => session[Symbol.asyncDispose]());
  return { client, session };
}
