/** A button that has just become another one is not pressed for it by a second click. */

import { useEffect, useRef, useState } from "react";

const STEADY_MS = 1_500;

/** False for a moment after `verb` has changed. */
export function useSteady(verb: string): boolean {
  const [changing, setChanging] = useState<string | null>(null);
  const last = useRef(verb);
  const isNew = last.current !== verb;
  useEffect(() => {
    if (last.current === verb) return;
    last.current = verb;
    setChanging(verb);
    const timer = setTimeout(() => setChanging(null), STEADY_MS);
    return () => clearTimeout(timer);
  }, [verb]);
  return !isNew && changing !== verb;
}
