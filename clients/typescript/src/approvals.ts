/** Calls that wait until somebody allows or denies them. */

import type { Calls, CallOptions } from "./core/calls.js";
import { array, string } from "./core/json.js";
import { get, path } from "./core/request.js";
import * as requests from "./core/requests.js";
import type { ApprovalInfo } from "./documents.js";
import type { components } from "./openapi.js";

/**
 * The tenant's calls that wait for approval; of an administrator, those of all tenants. Deciding takes
 * a token of scope `approve`, or an administrator.
 */
export class Approvals {
  readonly #calls: Calls;

  /** @internal */
  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Yields calls that wait, oldest first; with `all` those of the last minutes too. */
  async *list(
    options: CallOptions & { all?: boolean | undefined } = {},
  ): AsyncGenerator<ApprovalInfo, void, undefined> {
    const all = options.all ? "true" : undefined;
    let after: string | undefined;
    do {
      const page = await this.#calls.fetch(get(path("approvals"), { all, after }), options);
      yield* array(page, "approvals", "a list of approvals") as ApprovalInfo[];
      after = typeof page["next"] === "string" ? page["next"] : undefined;
    } while (after !== undefined);
  }

  /** Returns a call, with the code that is to run. */
  async get(id: string, options: CallOptions = {}): Promise<ApprovalInfo> {
    const fields = await this.#calls.fetch(get(path("approvals", id)), options);
    string(fields, "id", "an approval");
    return fields as unknown as ApprovalInfo;
  }

  /**
   * Allows or denies a call. What is remembered of an approval is at most, and by default, what the
   * tenant's rule says.
   *
   * @throws Conflict if it waits no more.
   */
  async decide(
    id: string,
    request: components["schemas"]["DecideRequest"],
    options: CallOptions = {},
  ): Promise<ApprovalInfo> {
    const fields = await this.#calls.fetch(requests.decide(id, request), options);
    string(fields, "id", "an approval");
    return fields as unknown as ApprovalInfo;
  }
}
