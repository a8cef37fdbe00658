/** Small hooks that several screens use. */

import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError, serverNow } from "../api/client.ts";

/** The server's time, anew every so often: for what says "in 5 minutes". */
export function useNow(everyMs: number): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    const timer = setInterval(() => setNow(serverNow()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export interface Loading<T> {
  data: T | null;
  error: ApiError | null;
  reload: () => Promise<void>;
}

/**
 * What `read` answers, read anew every `everyMs` while the page is looked at, and whenever `key` changes. An error
 * keeps what was there before. An answer that was overtaken by a later question is dropped.
 */
export function useLoaded<T>(read: () => Promise<T>, key: string, everyMs = 0): Loading<T> {
  const [state, setState] = useState<{ key: string; data: T | null; error: ApiError | null }>({
    key,
    data: null,
    error: null,
  });
  const newest = useRef(0);
  const reading = useRef(read);
  reading.current = read;
  const reload = useCallback(async () => {
    newest.current += 1;
    const mine = newest.current;
    try {
      const data = await reading.current();
      if (mine === newest.current) setState({ key, data, error: null });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (mine === newest.current) setState((was) => ({ key, data: was.key === key ? was.data : null, error }));
    }
  }, [key]);
  useEffect(() => {
    void reload();
    if (!everyMs) return;
    const timer = setInterval(() => {
      if (document.visibilityState === "visible") void reload();
    }, everyMs);
    return () => clearInterval(timer);
  }, [reload, everyMs]);
  return state.key === key ? { data: state.data, error: state.error, reload } : { data: null, error: null, reload };
}

export interface Asking {
  busy: boolean;
  error: ApiError | null;
  ask: (work: () => Promise<void>) => Promise<void>;
}

/** What a form asks of the server: whether that is under way, and why it was refused the last time. */
export function useAsking(): Asking {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  async function ask(work: () => Promise<void>): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      await work();
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setError(problem);
    } finally {
      setBusy(false);
    }
  }
  return { busy, error, ask };
}

/** The page's title while a screen is shown. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · CodeHub`;
  }, [title]);
}
