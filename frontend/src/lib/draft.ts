/** What was typed and not saved is there again after a look elsewhere, a reload or a crash; of this tab alone. */

import { useState } from "react";

const PREFIX = "codehub.draft.";

export function useDraft(key: string): [string | null, (text: string | null) => void] {
  const [text, setText] = useState<string | null>(() => read(key));
  return [
    text,
    (now) => {
      setText(now);
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

function read(key: string): string | null {
  try {
    return sessionStorage.getItem(PREFIX + key);
  } catch {
    return null;
  }
}

function write(key: string, text: string | null): void {
  try {
    if (text === null) sessionStorage.removeItem(PREFIX + key);
    else sessionStorage.setItem(PREFIX + key, text);
  } catch {
    // it is lost with the tab, as before
  }
}
