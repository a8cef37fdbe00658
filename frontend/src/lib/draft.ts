/**
 * What was typed and not saved is there again after a look elsewhere, a reload or a crash; of this tab alone. With it is
 * kept what it began from, so that what others wrote meanwhile is noticed.
 */

import { useState } from "react";

const PREFIX = "codehub.draft.";

export interface Draft {
  text: string;
  base: string | null;
}

export function useDraft(key: string): [Draft | null, (draft: Draft | null) => void] {
  const [draft, setDraft] = useState<Draft | null>(() => read(key));
  return [
    draft,
    (now) => {
      setDraft(now);
      write(key, now);
    },
  ];
}

/** The next to log in here may be somebody else. */
export function forgetDrafts(): void {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key);
  } catch {
    // nothing is kept
  }
}

function read(key: string): Draft | null {
  try {
    return draftOf(sessionStorage.getItem(PREFIX + key));
  } catch {
    return null;
  }
}

/** Of what is kept; an earlier version kept the text alone. */
export function draftOf(kept: string | null): Draft | null {
  if (kept === null) return null;
  try {
    const { text, base } = JSON.parse(kept) as Partial<Draft>;
    if (typeof text === "string") return { text, base: base ?? null };
  } catch {
    // the text alone
  }
  return { text: kept, base: null };
}

function write(key: string, draft: Draft | null): void {
  try {
    if (draft === null) sessionStorage.removeItem(PREFIX + key);
    else sessionStorage.setItem(PREFIX + key, JSON.stringify(draft));
  } catch {
    // it is lost with the tab, as before
  }
}
