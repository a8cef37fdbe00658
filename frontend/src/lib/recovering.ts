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
