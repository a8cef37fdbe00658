/**
 * Keeps the store true: server-sent events, and while they are lost, reading the list every few seconds.
 *
 * The stream begins with every workspace and a heartbeat; what was known and not shown is gone. A stream that is silent
 * for longer than two heartbeats is given up, since something in between may have swallowed it.
 */

import { useSyncExternalStore } from "react";
import { all, get } from "../api/client.ts";
import type { Session, Workspace } from "../api/types.ts";
import { store } from "./store.ts";

export type Connection = "connecting" | "live" | "lost";

const SILENCE_MS = 75_000;
const POLL_MS = 4_000;
const FIRST = 50;
const LONGEST_PAUSE_MS = 15_000;

class Live {
  private source: EventSource | null = null;
  private seen: Set<string> | null = null;
  private pause = 500;
  private again: ReturnType<typeof setTimeout> | undefined;
  private silence: ReturnType<typeof setTimeout> | undefined;
  private polling: ReturnType<typeof setInterval> | undefined;
  private readonly listeners = new Set<() => void>();
  connection: Connection = "connecting";
  loaded = false;

  start(): void {
    this.stop();
    this.open();
    void this.begin();
    addEventListener("online", this.hurry);
  }

  stop(): void {
    removeEventListener("online", this.hurry);
    this.close();
    clearTimeout(this.again);
    clearInterval(this.polling);
    this.polling = undefined;
    this.set("connecting");
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** The newest few come sooner by themselves than at the head of everything. */
  private async begin(): Promise<void> {
    try {
      const page = await get<{ items: Workspace[] }>("/workspaces", { limit: FIRST });
      if (!this.loaded) for (const workspace of page.items) store.put(workspace);
    } catch {
      // the stream, or the polling that replaces it, shows them
    }
  }

  private open(): void {
    this.close();
    this.seen = new Set();
    const source = new EventSource("/api/v1/events");
    this.source = source;
    source.addEventListener("open", () => {
      this.seen = new Set(); // the browser may have connected again by itself: everything is shown anew
      this.hear();
    });
    source.addEventListener("workspace_updated", (event) => {
      const workspace = JSON.parse(event.data) as Workspace;
      this.seen?.add(workspace.id);
      store.put(workspace);
      this.hear();
    });
    source.addEventListener("workspace_deleted", (event) => {
      store.remove((JSON.parse(event.data) as { id: string }).id);
      this.hear();
    });
    source.addEventListener("heartbeat", () => {
      if (this.seen) store.keepOnly(this.seen);
      this.seen = null;
      this.loaded = true;
      this.pause = 500;
      this.set("live");
      this.hear();
    });
    source.addEventListener("error", () => this.lose());
    this.hear();
  }

  private close(): void {
    this.source?.close();
    this.source = null;
    clearTimeout(this.silence);
  }

  private hear(): void {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lose(), SILENCE_MS);
  }

  private lose(): void {
    this.close();
    this.set("lost");
    this.polling ??= setInterval(() => void this.poll(), POLL_MS);
    clearTimeout(this.again);
    this.again = setTimeout(() => void this.reopen(), this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE_MS);
  }

  /** First asks who we are: a session that has ended leads to the login, not to trying for ever. */
  private async reopen(): Promise<void> {
    try {
      await get<Session>("/session");
      this.open();
    } catch {
      if (this.polling !== undefined) this.lose();
    }
  }

  private readonly hurry = (): void => {
    if (this.connection === "lost") {
      clearTimeout(this.again);
      void this.reopen();
    }
  };

  private async poll(): Promise<void> {
    try {
      const found = await all<Workspace>("/workspaces");
      if (this.connection !== "lost") return;
      for (const workspace of found) store.put(workspace);
      store.keepOnly(new Set(found.map((each) => each.id)));
      this.loaded = true;
      for (const listener of this.listeners) listener();
    } catch {
      // the next one may do
    }
  }

  private set(connection: Connection): void {
    if (connection === "live") {
      clearInterval(this.polling);
      this.polling = undefined;
    }
    this.connection = connection;
    for (const listener of this.listeners) listener();
  }
}

export const live = new Live();

export function useConnection(): Connection {
  return useSyncExternalStore(
    (listener) => live.listen(listener),
    () => live.connection,
  );
}

export function useLoaded(): boolean {
  return useSyncExternalStore(
    (listener) => live.listen(listener),
    () => live.loaded,
  );
}
