/** Reads JSON of which only so much is believed as was looked at. */

import { UnexpectedAnswer } from "../errors.js";

export type Fields = Record<string, unknown>;

/** Parses an object. `what` names it in errors. */
export function parseObject(text: string, what: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new UnexpectedAnswer(`${what} is no JSON`, { cause });
  }
  return object(value, what);
}

export function object(value: unknown, what: string): Fields {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UnexpectedAnswer(`${what} is no object`);
  }
  return value as Fields;
}

export function string(fields: Fields, name: string, what: string): string {
  const value = fields[name];
  if (typeof value !== "string") {
    throw new UnexpectedAnswer(`${what} has no ${name}`);
  }
  return value;
}

export function array(fields: Fields, name: string, what: string): unknown[] {
  const value = fields[name];
  if (!Array.isArray(value)) {
    throw new UnexpectedAnswer(`${what} has no list of ${name}`);
  }
  return value;
}
