/**
 * Tests of the types, which run when this is compiled: each line after `@ts-expect-error` has to be
 * refused, and everything else accepted.
 */

import {
  ApiError,
  Client,
  type components,
  type Event,
  type ExceptionInfo,
  Outcome,
  type OutcomeDocument,
  Session,
  type SessionInfo,
  type Value,
  VivariumError,
} from "vivarium-client";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function holds<_Claim extends true>(): void {}

/** Never called. */
export async function types(client: Client, session: Session): Promise<void> {
  const outcome = await session.execute("1");
  holds<Same<typeof outcome, Outcome>>();
  holds<Same<Outcome["duration_ms"], number>>();
  holds<Same<Outcome["value"], Value | null>>();
  holds<Same<Outcome["rolled_back"], boolean>>();
  holds<Same<Outcome["stdout"], OutcomeDocument["stdout"]>>();
  holds<Same<ReturnType<Outcome["fileBytes"]>, Uint8Array<ArrayBuffer>>>();
  holds<Same<SessionInfo, components["schemas"]["SessionInfo"]>>();
  holds<"killed" extends Outcome["status"] ? true : false>();
  // @ts-expect-error: a status that the API does not have
  outcome.status === "finished";
  // @ts-expect-error: an outcome is read-only
  outcome.status = "ok";
  // @ts-expect-error: documents keep the API's names
  outcome.durationMs;
  // @ts-expect-error: there may be no value
  outcome.value.repr;
  holds<Same<NonNullable<typeof outcome.exception>, ExceptionInfo>>();

  await session.execute("1", {
    timeoutMs: 1000,
    files: { a: "text", b: new Uint8Array(), c: new Blob([]) },
    outputs: ["a", { name: "b", format: "base64" }],
    signal: AbortSignal.timeout(1000),
    create: true,
  });
  // @ts-expect-error: the unit is in the name
  await session.execute("1", { timeout: 1 });
  // @ts-expect-error: arguments are in camel case
  await session.execute("1", { timeout_ms: 1 });
  // @ts-expect-error: a time is a number
  await session.execute("1", { timeoutMs: "1s" });
  // @ts-expect-error: a list of names
  await session.execute("1", { outputs: [1] });
  // @ts-expect-error: a format that the API does not have
  await session.execute("1", { outputs: [{ name: "a", format: "hex" }] });
  // @ts-expect-error: only an execution creates its session
  await session.command(["ls"], { create: true });
  // @ts-expect-error: a line of shell is { shell }
  await session.command("ls | wc");
  await session.command({ shell: "ls | wc" }, { stdin: "", cwd: "sub" });
  // @ts-expect-error: what runs in the background has no turn
  await session.start(["ls"], { queued: true });
  // @ts-expect-error: only what runs in the background is written to
  await session.command(["cat"], { stdinOpen: true });
  // @ts-expect-error: a session of its own has no queue
  await client.run(["ls"], { queued: true });
  const process = await session.start(["cat"], { stdinOpen: true, env: { A: "b" }, cwd: "sub" });
  holds<Same<Awaited<ReturnType<typeof process.poll>>, Outcome | null>>();
  // @ts-expect-error: text or bytes
  await process.write(1);
  // @ts-expect-error: either a list or a line of shell
  await session.command({ argv: ["ls"], shell: "ls" });
  await client.run(["ls"] as const, { limits: { max_memory_mb: 256, cpu_cores: "unlimited" } });
  // @ts-expect-error: a limit that the API does not have
  await client.run("1", { limits: { max_memory_gb: 1 } });
  // @ts-expect-error: a limit is a number or "unlimited"
  await client.run("1", { limits: { max_procs: "many" } });
  // @ts-expect-error: a network that the API does not have
  await client.session({ network: "open" });
  await client.session({ checkpoint: "each", autoRollback: true });
  // @ts-expect-error: checkpoints that the API does not have
  await client.session({ checkpoint: "all" });
  // @ts-expect-error: strings only
  await client.session({ metadata: { a: 1 } });
  // @ts-expect-error: a session is made by a client
  new Session();

  for await (const event of session.stream("1")) {
    holds<Same<typeof event, Event>>();
    if (event.type === "stdout") {
      holds<Same<typeof event.text, string>>();
      // @ts-expect-error: of another event
      event.outcome;
    } else if (event.type === "done") {
      holds<Same<typeof event.outcome, Outcome>>();
    } else if (event.type === "display") {
      holds<"video_frame" extends typeof event.kind ? true : false>();
      const png: string | undefined = event.mime["image/png"];
      png?.length;
    }
    // @ts-expect-error: no event's type
    event.type === "stdin";
  }

  await session.files.put("a", "text");
  // @ts-expect-error: no content
  await session.files.put("a", 5);
  holds<Same<Awaited<ReturnType<typeof session.files.get>>, Uint8Array<ArrayBuffer>>>();
  for await (const chunk of await session.files.open("a")) {
    holds<Same<typeof chunk, Uint8Array>>();
  }

  await client.images.import(new Blob([]), { id: "a" });
  // @ts-expect-error: no path, and no image is text
  await client.images.import("a.tar");

  await using own = await client.session();
  await using stream = own.stream("1");
  await using file = await own.files.open("a");
  holds<Same<typeof stream.executionId, string | null>>();
  holds<Same<typeof file.sizeBytes, number | null>>();

  const error: unknown = null;
  if (error instanceof ApiError) {
    holds<Same<typeof error.retryAfterSecs, number | null>>();
    const general: VivariumError = error;
    general.message;
  }
}
