/** What only an administrator may choose to recover from, because it may give up files or show only some of them. */

import type { RecoverFrom, Workspace } from "../api/types.ts";

/** Those that give something up are asked about once more. */
export const GIVES_UP: RecoverFrom[] = ["archive", "blank"];

/** Sources that take force: they give up the home on disk, or use one that nothing proves whole. */
export function forcedOf(workspace: Workspace, isAdmin: boolean): RecoverFrom[] {
  if (!isAdmin) return [];
  const possible = workspace.error?.can_recover_from ?? [];
  const home = GIVES_UP.filter((from) => from !== "archive" || workspace.archived);
  const isUnproven = workspace.conditions["storage.volume_ready"]?.reason === "VolumeUnproven";
  const sources: RecoverFrom[] = isUnproven ? ["volume", ...home] : home;
  return sources.filter((from) => !possible.includes(from));
}

export const AFTERWARDS = ["RUNNING", "STANDBY", "ARCHIVED"] as const;
export type Afterwards = (typeof AFTERWARDS)[number];

/** What is wanted once it is recovered; of one that is being deleted nothing else, so there is nothing to choose. */
export function afterwardsOf({ desired_state }: Workspace, chosen: Afterwards | null): Afterwards | null {
  if (desired_state === "DELETED") return null;
  return chosen ?? AFTERWARDS.find((each) => each === desired_state) ?? "STANDBY";
}

/** What a request to recover says. */
export function recoveryOf(from: RecoverFrom, forced: boolean, afterwards: Afterwards | null) {
  return { from, forced, ...(afterwards && { desired_state: afterwards }) };
}
