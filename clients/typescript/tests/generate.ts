/** Writes src/openapi.ts: the types of the OpenAPI document that a daemon serves. */

import { readFile, writeFile } from "node:fs/promises";
import { get } from "node:http";
import { text } from "node:stream/consumers";

import openapi, { astToString } from "openapi-typescript";

import { Daemon } from "./daemon.js";

const GENERATED = new URL("../src/openapi.ts", import.meta.url);
const HEAD = "// Written by `npm run generate` from /openapi.json.\n\n";

/** Returns what a daemon's document makes of the file. */
export async function generated(daemon: Daemon): Promise<string> {
  const document = await new Promise<string>((resolve, reject) => {
    const { socketPath } = daemon;
    const request = get({ socketPath, path: "/openapi.json" }, (response) => {
      text(response).then(resolve, reject);
    });
    request.on("error", reject);
  });
  return HEAD + astToString(await openapi(document));
}

/** Returns the file's content. */
export async function committed(): Promise<string> {
  return readFile(GENERATED, "utf-8");
}

if (process.argv[1]?.endsWith("generate.js")) {
  const daemon = await Daemon.start();
  await writeFile(GENERATED, await generated(daemon));
  await daemon.stop();
}
