/** What can be done to a workspace. Each answers with the workspace as it is then, which goes into the store at once. */

import { ApiError, call, get, post } from "../api/client.ts";
import type { Desired, NewWorkspace, RecoverFrom, Workspace, WorkspaceChange } from "../api/types.ts";
import { type Afterwards, recoveryOf } from "../lib/recovering.ts";
import { store } from "./store.ts";

/** Only one's own are in the store: administrators also act on others'. */
function known(workspace: Workspace): Workspace {
  if (workspace.deleted_at) store.remove(workspace.id);
  else if (store.get(workspace.id)) store.put(workspace);
  return workspace;
}

const at = (id: string): string => `/workspaces/${id}`;

export async function create(given: NewWorkspace): Promise<Workspace> {
  const made = await post<Workspace>("/workspaces", given);
  store.put(made);
  return made;
}

/** Asked again after a busy answer it may be refused, because it was heard the first time: then it is being done. */
async function wished(id: string, desired: Desired, asked: Promise<{ data: Workspace }>): Promise<Workspace> {
  try {
    return known((await asked).data);
  } catch (error) {
    const refused = error instanceof ApiError && error.repeated && error.status === 409;
    if (!refused || error.details.desired_state !== desired) throw error;
    return read(id);
  }
}

export async function want(id: string, desired: Exclude<Desired, "DELETED">, safe?: boolean): Promise<Workspace> {
  const body = { desired_state: desired, ...(safe && { safe_mode: true }) };
  return wished(id, desired, call<Workspace>("PATCH", at(id), { body }));
}

/** Whether it runs that way, or is about to. */
export function isInSafeMode({ safe_mode, desired_state, phase }: Workspace): boolean {
  return safe_mode && (desired_state === "RUNNING" || phase === "RUNNING") && phase !== "ERROR";
}

export async function change(id: string, body: WorkspaceChange, ifMatch: string | null): Promise<Workspace> {
  return known((await call<Workspace>("PATCH", at(id), { body, ifMatch })).data);
}

export async function remove(id: string, how: { purge?: boolean; confirm?: boolean }): Promise<Workspace> {
  const asked = call<Workspace>("DELETE", at(id), { query: how });
  return how.purge ? known((await asked).data) : wished(id, "DELETED", asked);
}

export async function undelete(id: string): Promise<Workspace> {
  return known(await post<Workspace>(`${at(id)}/undelete`));
}

export async function recover(
  id: string,
  from: RecoverFrom,
  forced: boolean,
  afterwards: Afterwards | null,
): Promise<Workspace> {
  return known(await post<Workspace>(`${at(id)}/recover`, recoveryOf(from, forced, afterwards)));
}

/** Out of an error, without the settings in its home. */
export async function startSafely(id: string): Promise<Workspace> {
  return known(await post<Workspace>(`${at(id)}/recover`, { desired_state: "RUNNING", safe_mode: true }));
}

export async function keepAwake(id: string, hours: number): Promise<Workspace> {
  return known(await post<Workspace>(`${at(id)}/keep-awake`, { hours }));
}

export async function read(id: string): Promise<Workspace> {
  return known(await get<Workspace>(at(id)));
}

/** With the ETag that a change of it needs. */
export async function readForChange(id: string): Promise<{ workspace: Workspace; etag: string | null }> {
  const { data, etag } = await call<Workspace>("GET", at(id));
  return { workspace: known(data), etag };
}
