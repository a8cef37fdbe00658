/**
 * Changing what others may be changing too: a change is sent with the ETag of what was seen. When the server says that
 * the workspace has changed since (412), it is read again; if what is being edited is still as it was when editing
 * began, the change is sent once more, else whoever edits decides.
 */

import { useState } from "react";
import { ApiError } from "../../api/client.ts";
import type { Workspace, WorkspaceChange } from "../../api/types.ts";
import { isSame } from "../../lib/changed.ts";
import { change, readForChange } from "../../state/verbs.ts";

export interface Editing {
  busy: boolean;
  error: ApiError | null;
  /** What somebody else has made of it meanwhile. */
  theirs: Workspace | null;
  save: (wanted: WorkspaceChange, overwrite?: boolean) => Promise<boolean>;
  begin: () => void;
}

const TRIES = 4;

type Fields = readonly (keyof WorkspaceChange & keyof Workspace)[];

/** `base` is what the fields were when editing began, where that was before this page was loaded. */
export function useEditing(workspace: Workspace, fields: Fields, base: Partial<Workspace> = {}): Editing {
  const [began, setBegan] = useState({ ...workspace, ...base });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [theirs, setTheirs] = useState<Workspace | null>(null);

  async function save(wanted: WorkspaceChange, overwrite = false): Promise<boolean> {
    setBusy(true);
    setError(null);
    try {
      for (let tries = 1; ; tries++) {
        const now = await readForChange(workspace.id);
        if (!overwrite && fields.some((field) => !isSame(now.workspace[field], began[field]))) {
          setTheirs(now.workspace);
          return false;
        }
        try {
          setBegan(await change(workspace.id, wanted, now.etag));
          setTheirs(null);
          return true;
        } catch (problem) {
          const outdated = problem instanceof ApiError && problem.status === 412;
          if (!outdated || tries >= TRIES) throw problem;
        }
      }
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setError(problem);
      return false;
    } finally {
      setBusy(false);
    }
  }

  function begin(): void {
    setBegan(workspace);
    setTheirs(null);
    setError(null);
  }

  return { busy, error, theirs, save, begin };
}
