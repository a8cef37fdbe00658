/** The API's objects by short names; schema.ts is made from the server's own contract (`make docs`). */

import type { components } from "./schema.ts";

type Schemas = components["schemas"];

export type Workspace = Schemas["Workspace"];
export type NewWorkspace = Partial<Schemas["NewWorkspace"]> & { name: string };
export type WorkspaceChange = Partial<Schemas["WorkspaceChange"]>;
export type Phase = Workspace["phase"];
export type Operation = Workspace["operation"];
export type Desired = Workspace["desired_state"];
export type Condition = Schemas["Condition"];
export type RecoverFrom = NonNullable<Workspace["error"]>["can_recover_from"][number];
export type HistoryLine = Schemas["HistoryLine"];
export type Archives = Schemas["Archives"];
export type Logs = Schemas["Logs"];
export type Usage = Schemas["Usage"];
export type Images = Schemas["Images"];
export type Session = Schemas["ShownSession"];
export type Me = Schemas["Me"];
export type LoginOptions = Schemas["LoginOptions"];
export type OwnSession = Schemas["OwnSession"];
export type Token = Schemas["ShownToken"];
export type CreatedToken = Schemas["CreatedToken"];
export type User = Schemas["ShownUser"];
export type Limits = Schemas["Limits"];
export type GcRun = Schemas["GcRun"];
export type Health = Schemas["Health"];
export type Figures = Schemas["Figures"];
export type DurationsPoint = Schemas["DurationsPoint"];
export type AuditLine = Schemas["AuditLine"];

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}
