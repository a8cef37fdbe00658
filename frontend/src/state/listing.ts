/** Which workspaces a list shows, and in which order. */

import type { Phase, Workspace } from "../api/types.ts";

export type Sort = "recent" | "name" | "created" | "state";
export const SORTS: Sort[] = ["recent", "name", "created", "state"];

/** What the list can be narrowed to; `busy` has something under way. */
export type Narrow = "all" | "busy" | "favorite" | Phase;
export const NARROWS: Narrow[] = ["all", "favorite", "RUNNING", "STANDBY", "ARCHIVED", "busy", "ERROR"];

export interface View {
  text: string;
  tag: string;
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
    if ((text && !matches(each, text)) || (view.tag && !each.tags.includes(view.tag))) continue;
    count(counts, "all");
    count(counts, each.phase);
    if (each.operation !== "NONE") count(counts, "busy");
    if (each.is_favorite) count(counts, "favorite");
    if (belongs(each, view.narrow)) shown.push(each);
  }
  shown.sort((a, b) => order(a, b, view.sort, compare) || compare.compare(a.name, b.name) || (a.id < b.id ? -1 : 1));
  return { ids: shown.map((each) => each.id), counts };
}

function belongs(workspace: Workspace, narrow: Narrow): boolean {
  if (narrow === "busy") return workspace.operation !== "NONE";
  if (narrow === "favorite") return workspace.is_favorite;
  return narrow === "all" || narrow === workspace.phase;
}

/** What the address of a list says; what it cannot mean is as if it were not there. */
export function viewOf(query: URLSearchParams): View {
  const narrow = query.get("show") as Narrow;
  const sort = query.get("sort") as Sort;
  return {
    text: query.get("q") ?? "",
    tag: query.get("tag") ?? "",
    narrow: NARROWS.includes(narrow) ? narrow : "all",
    sort: SORTS.includes(sort) ? sort : "recent",
  };
}

function matches(workspace: Workspace, text: string): boolean {
  const { name, description, image_ref, tags } = workspace;
  const where = [name, description ?? "", image_ref, ...tags].join("\n");
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
