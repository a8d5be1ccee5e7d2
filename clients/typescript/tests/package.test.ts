/** The package as its users get it. */

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import ts from "typescript";
import * as vivarium from "vivarium-client";

import { VERSION } from "../dist/transport/transport.js";
import { needsDaemon } from "./daemon.js";
import { daemon } from "./real.js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const run = promisify(execFile);

async function text(path: string): Promise<string> {
  return readFile(join(ROOT, path), "utf-8");
}

/** Makes a project that has this package installed. */
async function project(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "vc"));
  t.after(() => rm(directory, { recursive: true }));
  await mkdir(join(directory, "node_modules"));
  await symlink(ROOT, join(directory, "node_modules", "vivarium-client"));
  await writeFile(join(directory, "package.json"), '{"type": "module"}');
  return directory;
}

test("the package needs nothing, and pins what its tests need", async () => {
  const { dependencies, devDependencies, version } = JSON.parse(await text("package.json"));
  assert.equal(dependencies, undefined);
  for (const [name, wanted] of Object.entries<string>(devDependencies)) {
    assert.match(wanted, /^\d+\.\d+\.\d+$/, name);
  }
  const workspace = (await text("../../Cargo.toml")).split("[workspace.package]")[1];
  assert.equal(/^version = "(.*)"$/m.exec(workspace ?? "")?.[1], version);
  assert.equal(VERSION, version);
});

test("the lock file names no registry", async () => {
  const lock = await text("package-lock.json");
  assert(!/"resolved"|registry/.test(lock));
  const packages = JSON.parse(lock).packages as Record<string, { integrity?: string }>;
  for (const [name, { integrity }] of Object.entries(packages).filter(([name]) => name)) {
    assert.match(integrity ?? "", /^sha512-/, name);
  }
});

test("every export has a name", () => {
  assert(!("default" in vivarium));
  assert.equal(typeof vivarium.Client, "function");
});

test("outside Node nothing imports Node's modules", async () => {
  const files = (await readdir(join(ROOT, "dist"), { recursive: true })) as string[];
  const modules = files.filter((name) => name.endsWith(".js") && name !== "transport/node.js");
  assert(modules.includes("client.js") && modules.includes("core/retry.js"));
  for (const name of modules) {
    assert(!/^(import|export) .*from "(node:|\w)|Buffer\./m.test(await text(`dist/${name}`)), name);
  }
});

test("the types compile for a user without Node's, in strict mode", async (t) => {
  const directory = await project(t);
  await writeFile(
    join(directory, "user.ts"),
    `import { Client, type Event } from "vivarium-client";
     export async function main(): Promise<Event | undefined> {
       await using session = await new Client({ url: "http://localhost" }).session();
       for await (const event of session.stream("1")) return event;
       return undefined;
     }`,
  );
  for (const resolution of ["bundler", "nodenext"]) {
    const module = resolution === "bundler" ? "esnext" : "nodenext";
    const options = ["--strict", "--exactOptionalPropertyTypes", "--noEmit", "--typeRoots", "none"];
    const target = ["--target", "es2022", "--lib", "es2022,dom,esnext.disposable"];
    const modules = ["--module", module, "--moduleResolution", resolution];
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const all = [tsc, ...options, ...target, ...modules, "user.ts"];
    await run(process.execPath, all, { cwd: directory }).catch((error) => assert.fail(error.stdout));
  }
});

test("the examples of the README run and print what they say", needsDaemon, async (t) => {
  const directory = await project(t);
  const blocks = [...(await text("README.md")).matchAll(/```[jt]s\n([^]*?)```/g)];
  const printed: string[] = [];
  for (const [index, [, code]] of blocks.entries()) {
    const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext };
    const { outputText } = ts.transpileModule(code ?? "", { compilerOptions: options });
    const path = join(directory, `example${index}.js`);
    await writeFile(path, outputText);
    const env = { ...process.env, VIVARIUM_URL: (await daemon()).url };
    printed.push((await run(process.execPath, [path], { cwd: directory, env })).stdout);
  }
  assert.equal(printed[0], "2 rows\n\n7\nerror IndexError\n");
  assert.match(printed[1] ?? "", /^42\n[^]*b\n\nLinux\n\ngetp\w+\n2\n$/);
  assert.equal(printed[2], "0\n1\n2\nok\n");
  assert.equal(printed[3], "['Ada Lovelace'] []\n\n");
  assert.equal(printed[4], "hello\n\n0\nsignal\n");
  assert.equal(printed[5], "2\ncontext\n1\n[ 'main', 'plots' ]\n");
  assert.match(printed[6] ?? "", /big\.bin 17\nnotes \d+\nnotes\/a\.txt 16\nthis\n16\nHELLO\n$/);
  assert.equal(printed[7], "signal\n404 unknown_session\n");
});
