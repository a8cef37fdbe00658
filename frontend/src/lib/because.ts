/** What the server says in sentences, taken apart so that it can be said in other languages. */

const UNITS: Record<string, number> = { d: 86400, h: 3600, min: 60, s: 1 };
/** Why a TTL acts (model/ttl.py). */
const FORM =
  /^((?:\d+ (?:d|h|min|s) )+)(?:since it was (started|last used|stopped)|after it was (?:to be )?(kept awake))$/;

export interface Because {
  seconds: number;
  since: "started" | "used" | "stopped" | "awake";
}

export function becauseOf(text: string): Because | null {
  const match = FORM.exec(text);
  if (!match) return null;
  let seconds = 0;
  for (const [, n, unit] of (match[1] ?? "").matchAll(/(\d+) (\w+)/g)) seconds += Number(n) * (UNITS[unit ?? ""] ?? 0);
  const what = match[2] ?? match[3];
  return { seconds, since: what === "last used" ? "used" : what === "kept awake" ? "awake" : (what as "started") };
}

const MINUTE = "(\\d{4}-\\d\\d-\\d\\d) (\\d\\d:\\d\\d) UTC";
const ADOPTED = new RegExp(`^Restored from your archive of ${MINUTE}; the database was restored to ${MINUTE}\\.$`);

/** That a restored database was given a newer archive (model/conditions.py): the times of both, in ISO 8601. */
export function adoptionOf(text: string): { archive: string; database: string } | null {
  const match = ADOPTED.exec(text);
  return match && { archive: `${match[1]}T${match[2]}:00Z`, database: `${match[3]}T${match[4]}:00Z` };
}
