/** One workspace in the list. It listens to its own row alone. */

import { memo, useState } from "react";
import type { Workspace } from "../api/types.ts";
import { dateTime, relative } from "../lib/format.ts";
import { useNow } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { asked } from "../lib/phrases.ts";
import { Link } from "../lib/router.tsx";
import { lastUsed } from "../state/listing.ts";
import { useWorkspace } from "../state/store.ts";
import { want } from "../state/verbs.ts";
import { Icon } from "../ui/icons.tsx";
import { Badge, Button } from "../ui/parts.tsx";
import { complain } from "../ui/toasts.tsx";

export const WorkspaceRow = memo(function WorkspaceRow({ id }: { id: string }) {
  const workspace = useWorkspace(id);
  const now = useNow(15_000);
  if (!workspace) return null;
  return (
    <div className="row" data-workspace={id}>
      <div className="row-main">
        <Link href={`/workspaces/${id}`} className="row-name">
          {workspace.name}
        </Link>
        <span className="row-about">{workspace.description || workspace.image_ref}</span>
      </div>
      <div className="row-state">
        <Badge workspace={workspace} />
        <span className="row-next">{nextLine(workspace, now)}</span>
      </div>
      <time className="row-used" dateTime={lastUsed(workspace)} title={dateTime(lastUsed(workspace))}>
        {relative(lastUsed(workspace), now)}
      </time>
      <div className="row-do">
        <RowVerb workspace={workspace} />
        {workspace.phase !== "ERROR" && (
          <a className="button plain" href={workspace.url}>
            <Icon name="open" />
            {t("verb.open")}
            <span className="hidden"> {workspace.name}</span>
          </a>
        )}
      </div>
    </div>
  );
});

/** What comes next by itself, or what was asked for. */
function nextLine(workspace: Workspace, now: number): string {
  const waiting = asked(workspace);
  if (waiting) return waiting;
  if (workspace.error && workspace.phase !== "ERROR") return t("row.retrying");
  const next = workspace.next_transition;
  if (!next) return "";
  return t(next.to === "STANDBY" ? "row.stops" : "row.archives", { when: relative(next.at, now) });
}

/** Starting what is stopped and stopping what runs, without leaving the list. */
function RowVerb({ workspace }: { workspace: Workspace }) {
  const [busy, setBusy] = useState(false);
  if (workspace.phase === "ERROR") {
    return (
      <Link className="button plain" href={`/workspaces/${workspace.id}`}>
        <Icon name="warning" />
        {t("verb.look")}
      </Link>
    );
  }
  const runs = workspace.phase === "RUNNING";
  const settled = workspace.operation === "NONE" && workspace.desired_state === workspace.phase;
  async function act(): Promise<void> {
    setBusy(true);
    try {
      await want(workspace.id, runs ? "STANDBY" : "RUNNING");
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <Button kind="quiet" icon={runs ? "stop" : "play"} busy={busy} disabled={!settled} onClick={() => void act()}>
      {t(runs ? "verb.stop" : "verb.start")}
      <span className="hidden"> {workspace.name}</span>
    </Button>
  );
}
