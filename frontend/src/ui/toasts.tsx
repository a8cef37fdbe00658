/** Short words on what was done, or was not; read out by screen readers, gone after a while. */

import { useSyncExternalStore } from "react";
import { ApiError } from "../api/client.ts";
import { t } from "../lib/language.ts";
import { explain } from "../lib/phrases.ts";
import { Link } from "../lib/router.tsx";
import { insteadOf } from "../state/makeRoom.ts";
import { Button } from "./parts.tsx";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
  name: string;
  running: Running[];
  instead: ((stop: Running) => Promise<void>) | null;
}

interface Running {
  id: string;
  name: string;
}

let toasts: Toast[] = [];
let next = 1;
const listeners = new Set<() => void>();

function set(now: Toast[]): void {
  toasts = now;
  for (const listener of listeners) listener();
}

function show(text: string, ms: number, more: Partial<Toast> = {}): void {
  const toast = { id: next++, text, bad: false, name: "", running: [], instead: null, ...more };
  set([...toasts.slice(-3), toast]);
  setTimeout(() => dismiss(toast.id), ms);
}

function dismiss(id: number): void {
  set(toasts.filter((each) => each.id !== id));
}

const SAID_MS = 5_000;
const FAILED_MS = 15_000;

export function say(text: string): void {
  show(text, SAID_MS);
}

/** Something did not work, and needs to be read. */
export function warn(text: string): void {
  show(text, FAILED_MS, { bad: true });
}

/**
 * Tells of an error; anything that is not the API's is a mistake of ours and goes to the console. What a limit refused
 * can be done `instead` of what runs.
 */
export function complain(error: unknown, instead?: { name: string; again: () => Promise<unknown> }): void {
  if (!(error instanceof ApiError)) throw error;
  if (error.status === 401) return; // the login is shown
  const { text, running } = explain(error);
  if (!instead || !running.length) {
    show(text, FAILED_MS, { bad: true, running });
    return;
  }
  const act = async (stop: Running): Promise<void> => {
    try {
      say(t("limit.stopping", { stop: stop.name, start: instead.name }));
      await insteadOf(stop.id, instead.again);
    } catch (problem) {
      complain(problem, instead);
    }
  };
  const name = { name: instead.name };
  show(t("limit.instead", { ...name, n: running.length }), 60_000, { bad: true, running, instead: act, ...name });
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
            {each.running.map((one) =>
              each.instead ? (
                <Button
                  key={one.id}
                  onClick={() => {
                    dismiss(each.id);
                    void each.instead?.(one);
                  }}
                >
                  {t("limit.stop", { stop: one.name, start: each.name })}
                </Button>
              ) : (
                <Link key={one.id} href={`/workspaces/${one.id}`}>
                  {one.name}
                </Link>
              ),
            )}
          </div>
          <Button kind="quiet" icon="close" aria-label={t("app.close")} onClick={() => dismiss(each.id)} />
        </div>
      ))}
    </div>
  );
}
