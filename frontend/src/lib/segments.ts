/** A history as pieces of time: from each change to the next. */

import type { HistoryLine, Operation, Phase } from "../api/types.ts";
import { adoptionOf } from "./because.ts";

export interface Segment {
  from: number;
  to: number;
  phase: Phase;
  operation: Operation;
  error: string | null;
  cause: string;
  /** It is what the workspace is now. */
  now: boolean;
}

/** Neither a step nor a phase, and worth a line: a restored database was given a newer archive of it. */
export function isToldAlone(cause: string): boolean {
  return adoptionOf(cause) !== null;
}

/** Oldest first. One operation is one piece, whatever it changed on the way; so is a phase between two of them. */
export function segmentsOf(newestFirst: readonly HistoryLine[], now: number): Segment[] {
  const found: Segment[] = [];
  for (const line of [...newestFirst].reverse()) {
    const at = Date.parse(line.at);
    const last = found.at(-1);
    if (last) last.to = at;
    const same = last?.operation === line.operation && (line.operation !== "NONE" || last.phase === line.phase);
    if (last && same && !isToldAlone(line.cause)) {
      last.error = line.error_reason ?? last.error;
      continue;
    }
    found.push({
      from: at,
      to: at,
      phase: line.phase,
      operation: line.operation,
      error: line.error_reason,
      cause: line.cause,
      now: false,
    });
  }
  const last = found.at(-1);
  if (last) {
    last.to = Math.max(last.from, now);
    last.now = true;
  }
  return found;
}

/** How long this operation usually took here, in seconds: the median of what ended well; null when it never did. */
export function usualSeconds(segments: readonly Segment[], operation: Operation): number | null {
  const took = segments
    .filter((each) => each.operation === operation && !each.now && !each.error)
    .map((each) => (each.to - each.from) / 1000)
    .sort((a, b) => a - b);
  return took[Math.floor(took.length / 2)] ?? null;
}
