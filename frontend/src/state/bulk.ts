/** The same done to many workspaces: a few at a time, and what fails stops no other. */

import { ApiError } from "../api/client.ts";
import type { Workspace } from "../api/types.ts";
import { remove, want } from "./verbs.ts";

export type BulkVerb = "start" | "stop" | "archive" | "delete";
export const BULK_VERBS: BulkVerb[] = ["start", "stop", "archive", "delete"];

const AT_ONCE = 4;

export interface Outcome {
  done: Workspace[];
  failed: { workspace: Workspace; error: ApiError }[];
}

/** Whether there is anything to do: what is so already, or cannot be, is left out. */
export function applies(verb: BulkVerb, workspace: Workspace): boolean {
  if (workspace.operation !== "NONE" || workspace.desired_state === "DELETED") return false;
  switch (verb) {
    case "start":
      return ["STANDBY", "ARCHIVED", "PENDING"].includes(workspace.phase);
    case "stop":
      return workspace.phase === "RUNNING";
    case "archive":
      return workspace.phase === "RUNNING" || workspace.phase === "STANDBY";
    case "delete":
      return workspace.phase !== "ERROR"; // what is lost by that is asked about on its own page
  }
}

export async function doAll(verb: BulkVerb, workspaces: readonly Workspace[]): Promise<Outcome> {
  const outcome: Outcome = { done: [], failed: [] };
  const left = [...workspaces];
  async function work(): Promise<void> {
    for (let workspace = left.shift(); workspace; workspace = left.shift()) {
      try {
        await act(verb, workspace.id);
        outcome.done.push(workspace);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        outcome.failed.push({ workspace, error });
      }
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return outcome;
}

function act(verb: BulkVerb, id: string): Promise<Workspace> {
  switch (verb) {
    case "start":
      return want(id, "RUNNING");
    case "stop":
      return want(id, "STANDBY");
    case "archive":
      return want(id, "ARCHIVED");
    case "delete":
      return remove(id, {});
  }
}
