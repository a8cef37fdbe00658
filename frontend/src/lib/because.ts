/** Why a TTL acts, as the server says it (model/ttl.py), taken apart so that it can be said in other languages. */

const UNITS: Record<string, number> = { d: 86400, h: 3600, min: 60, s: 1 };
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
