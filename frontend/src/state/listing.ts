/** Which workspaces a list shows, and in which order. */

import type { Phase, Workspace } from "../api/types.ts";

export type Sort = "recent" | "name" | "created" | "state";
export const SORTS: Sort[] = ["recent", "name", "created", "state"];

/** What the list can be narrowed to; `busy` is whatever has something under way. */
export type Narrow = "all" | "busy" | Phase;

export interface View {
  text: string;
  narrow: Narrow;
  sort: Sort;
}

const ORDER: Record<Phase, number> = {
  ERROR: 0,
  RUNNING: 1,
  STANDBY: 2,
  PENDING: 3,
  ARCHIVED: 4,
  DELETING: 5,
  DELETED: 6,
};

export interface Listed {
  ids: string[];
  counts: Map<Narrow, number>;
}

export function listed(workspaces: Iterable<Workspace>, view: View, compare: Intl.Collator): Listed {
  const counts = new Map<Narrow, number>();
  const shown: Workspace[] = [];
  const text = view.text.trim().toLocaleLowerCase();
  for (const each of workspaces) {
    if (text && !matches(each, text)) continue;
    count(counts, "all");
    count(counts, each.phase);
    const busy = each.operation !== "NONE";
    if (busy) count(counts, "busy");
    if (view.narrow === "all" || view.narrow === each.phase || (view.narrow === "busy" && busy)) shown.push(each);
  }
  shown.sort((a, b) => order(a, b, view.sort, compare) || compare.compare(a.name, b.name) || (a.id < b.id ? -1 : 1));
  return { ids: shown.map((each) => each.id), counts };
}

function matches(workspace: Workspace, text: string): boolean {
  const where = `${workspace.name}\n${workspace.description ?? ""}\n${workspace.image_ref}`;
  return where.toLocaleLowerCase().includes(text);
}

function order(a: Workspace, b: Workspace, sort: Sort, compare: Intl.Collator): number {
  switch (sort) {
    case "name":
      return compare.compare(a.name, b.name);
    case "created":
      return later(a.created_at, b.created_at);
    case "state":
      return ORDER[a.phase] - ORDER[b.phase];
    case "recent":
      return later(lastUsed(a), lastUsed(b));
  }
}

export function lastUsed(workspace: Workspace): string {
  return workspace.last_access_at ?? workspace.created_at;
}

/** Times of one server in one form compare as texts, which two thousand rows are glad of. */
function later(a: string, b: string): number {
  return a < b ? 1 : a > b ? -1 : 0;
}

function count(counts: Map<Narrow, number>, which: Narrow): void {
  counts.set(which, (counts.get(which) ?? 0) + 1);
}
