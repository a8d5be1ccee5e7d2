/** The API's calls about images of sessions, as requests. */

import { type Content, sourceOf } from "./content.js";
import { get, path, post, type Request } from "./request.js";

/** POST /v1/sessions/{id}/branch */
export function branch(
  sessionId: string,
  count: number,
  checkpoint: string | undefined,
): Request {
  // Sent again it would make other sessions.
  return postOnce(sessionId, "branch", { count, checkpoint });
}

/** POST /v1/sessions/{id}/checkpoints */
export function checkpoint(sessionId: string, name: string | undefined): Request {
  // Sent again it would be another checkpoint, or find its name taken.
  return postOnce(sessionId, "checkpoints", { name });
}

/** GET /v1/sessions/{id}/checkpoints/{name}/diff */
export function checkpointDiff(sessionId: string, name: string, from: string | undefined): Request {
  return get(path("sessions", sessionId, "checkpoints", name, "diff"), { from });
}

/** POST /v1/sessions/{id}/rollback */
export function rollback(sessionId: string, checkpoint: string): Request {
  // Sent again it would undo what was done after the first.
  return postOnce(sessionId, "rollback", { checkpoint });
}

/** GET /v1/images/{id}/export */
export function exportImage(sessionId: string, checkpoint: string | undefined): Request {
  return get(path("images", sessionId, "export"), { checkpoint });
}

/** POST /v1/images */
export function importImage(image: Content, id: string | undefined): Request {
  const query = id === undefined ? "" : `?${new URLSearchParams({ id })}`;
  return post(path("images") + query, sourceOf(image), {
    headers: { "Content-Type": "application/x-tar" },
    // Sent again it would find its id taken.
    idempotent: false,
    patience: "work",
  });
}

function postOnce(sessionId: string, call: string, fields: object): Request {
  const options = { idempotent: false, patience: "work" as const };
  return post(path("sessions", sessionId, call), sourceOf(JSON.stringify(fields)), options);
}
