/** Which workspaces of a list are selected. Each row listens to itself alone. */

import { useSyncExternalStore } from "react";

const selected = new Set<string>();
const listeners = new Set<() => void>();
let ids: readonly string[] = [];

function change(work: () => void): void {
  work();
  ids = [...selected];
  for (const listener of [...listeners]) listener();
}

function listen(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function toggle(id: string): void {
  change(() => (selected.has(id) ? selected.delete(id) : selected.add(id)));
}

export function select(all: Iterable<string>): void {
  change(() => {
    selected.clear();
    for (const id of all) selected.add(id);
  });
}

export function useSelected(id: string): boolean {
  return useSyncExternalStore(listen, () => selected.has(id));
}

export function useSelection(): readonly string[] {
  return useSyncExternalStore(listen, () => ids);
}
