/**
 * One's own workspaces as the server last told them.
 *
 * Whoever shows one row listens to that row, so that an update touches one row; whoever shows a list listens to all.
 * Many changes at once (the first two thousand, for example) are told once.
 */

import { useSyncExternalStore } from "react";
import type { Workspace } from "../api/types.ts";

type Listener = () => void;

const TOGETHER_MS = 16;

export class WorkspaceStore {
  private readonly rows = new Map<string, Workspace>();
  private readonly ofRow = new Map<string, Set<Listener>>();
  private readonly ofAll = new Set<Listener>();
  private readonly changed = new Set<string>();
  private timer: ReturnType<typeof setTimeout> | null = null;
  version = 0;

  get(id: string): Workspace | undefined {
    return this.rows.get(id);
  }

  values(): Iterable<Workspace> {
    return this.rows.values();
  }

  get size(): number {
    return this.rows.size;
  }

  /** An older object never replaces a newer one: answers and events overtake each other. */
  put(workspace: Workspace): void {
    const known = this.rows.get(workspace.id);
    if (known && Date.parse(known.updated_at) > Date.parse(workspace.updated_at)) return;
    this.rows.set(workspace.id, workspace);
    this.note(workspace.id);
  }

  remove(id: string): void {
    if (this.rows.delete(id)) this.note(id);
  }

  keepOnly(ids: ReadonlySet<string>): void {
    for (const id of [...this.rows.keys()]) if (!ids.has(id)) this.remove(id);
  }

  listenToRow(id: string, listener: Listener): () => void {
    const listeners = this.ofRow.get(id) ?? new Set();
    this.ofRow.set(id, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (!listeners.size) this.ofRow.delete(id);
    };
  }

  listenToAll(listener: Listener): () => void {
    this.ofAll.add(listener);
    return () => this.ofAll.delete(listener);
  }

  private note(id: string): void {
    this.changed.add(id);
    this.timer ??= setTimeout(() => this.tell(), TOGETHER_MS);
  }

  private tell(): void {
    this.timer = null;
    this.version += 1;
    const changed = [...this.changed];
    this.changed.clear();
    for (const id of changed) for (const listener of [...(this.ofRow.get(id) ?? [])]) listener();
    for (const listener of [...this.ofAll]) listener();
  }
}

export const store = new WorkspaceStore();

export function useWorkspace(id: string): Workspace | undefined {
  return useSyncExternalStore(
    (listener) => store.listenToRow(id, listener),
    () => store.get(id),
  );
}

/** Changes whenever anything in the store did. */
export function useStoreVersion(): number {
  return useSyncExternalStore(
    (listener) => store.listenToAll(listener),
    () => store.version,
  );
}
