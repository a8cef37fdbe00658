/** Short words on what was done, or was not; read out by screen readers, gone after a while. */

import { useSyncExternalStore } from "react";
import { ApiError } from "../api/client.ts";
import { t } from "../lib/language.ts";
import { explain } from "../lib/phrases.ts";
import { Link } from "../lib/router.tsx";
import { Button } from "./parts.tsx";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
  running: { id: string; name: string }[];
}

let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function set(now: Toast[]): void {
  toasts = now;
  for (const listener of listeners) listener();
}

function show(text: string, bad: boolean, running: Toast["running"], ms: number): void {
  const toast = { id: next++, text, bad, running };
  set([...toasts.slice(-3), toast]);
  setTimeout(() => dismiss(toast.id), ms);
}

function dismiss(id: number): void {
  set(toasts.filter((each) => each.id !== id));
}

export function say(text: string): void {
  show(text, false, [], 5_000);
}

/** Tells of an error; anything that is not the API's is a mistake of ours and goes to the console. */
export function complain(error: unknown): void {
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 401) return; // the login is shown
  const { text, running } = explain(error);
  show(text, true, running, 15_000);
}

export function Toasts() {
  const shown = useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => toasts,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {shown.map((each) => (
        <div key={each.id} className={each.bad ? "toast bad" : "toast"}>
          <div>
            {each.text}
            {each.running.map((one) => (
              <Link key={one.id} href={`/workspaces/${one.id}`}>
                {one.name}
              </Link>
            ))}
          </div>
          <Button kind="quiet" icon="close" aria-label={t("app.close")} onClick={() => dismiss(each.id)} />
        </div>
      ))}
    </div>
  );
}
