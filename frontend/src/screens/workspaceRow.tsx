/** One workspace in the list. It listens to its own row alone. */

import { memo, useState } from "react";
import type { Workspace } from "../api/types.ts";
import { dateTime, relative } from "../lib/format.ts";
import { useNow } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { asked } from "../lib/phrases.ts";
import { Link } from "../lib/router.tsx";
import { useSteady } from "../lib/steady.ts";
import { lastUsed } from "../state/listing.ts";
import { toggle, useSelected } from "../state/selection.ts";
import { useWorkspace } from "../state/store.ts";
import { change, want } from "../state/verbs.ts";
import { Icon } from "../ui/icons.tsx";
import { Badge, Button } from "../ui/parts.tsx";
import { complain } from "../ui/toasts.tsx";
import { OpenLink } from "./workspace/openLink.tsx";

export const WorkspaceRow = memo(function WorkspaceRow({ id }: { id: string }) {
  const workspace = useWorkspace(id);
  const now = useNow(15_000);
  if (!workspace) return null;
  return (
    <div className="row" data-workspace={id}>
      <div className="row-marks">
        <Chosen workspace={workspace} />
        <Favorite workspace={workspace} />
      </div>
      <div className="row-main">
        <Link href={`/workspaces/${id}`} className="row-name">
          {workspace.name}
        </Link>
        <span className="row-about">
          {workspace.tags.map((tag) => (
            <Link key={tag} className="tag" href={`/?tag=${encodeURIComponent(tag)}`}>
              {tag}
            </Link>
          ))}
          {workspace.description || workspace.image_ref}
        </span>
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
          <OpenLink workspace={workspace} className="button plain">
            {t("verb.open")}
            <span className="hidden"> {workspace.name}</span>
          </OpenLink>
        )}
      </div>
    </div>
  );
});

function Chosen({ workspace }: { workspace: Workspace }) {
  return (
    <input
      type="checkbox"
      checked={useSelected(workspace.id)}
      aria-label={t("bulk.select", { name: workspace.name })}
      onChange={() => toggle(workspace.id)}
    />
  );
}

function Favorite({ workspace }: { workspace: Workspace }) {
  const { id, name, is_favorite } = workspace;
  async function turn(): Promise<void> {
    try {
      await change(id, { is_favorite: !is_favorite }, null);
    } catch (error) {
      complain(error);
    }
  }
  return (
    <button
      type="button"
      className="star"
      aria-pressed={is_favorite}
      aria-label={t("list.is_favorite", { name })}
      onClick={() => void turn()}
    >
      <Icon name="star" />
    </button>
  );
}

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
  const runs = workspace.phase === "RUNNING";
  const steady = useSteady(runs ? "stop" : "start");
  if (workspace.phase === "ERROR") {
    return (
      <Link className="button plain" href={`/workspaces/${workspace.id}`}>
        <Icon name="warning" />
        {t("verb.look")}
      </Link>
    );
  }
  const settled = workspace.operation === "NONE" && workspace.desired_state === workspace.phase;
  async function act(): Promise<void> {
    setBusy(true);
    try {
      await want(workspace.id, runs ? "STANDBY" : "RUNNING");
    } catch (error) {
      complain(error, { name: workspace.name, again: () => want(workspace.id, "RUNNING") });
    } finally {
      setBusy(false);
    }
  }
  return (
    <Button
      kind="quiet"
      icon={runs ? "stop" : "play"}
      busy={busy}
      disabled={!settled || !steady}
      onClick={() => void act()}
    >
      {t(runs ? "verb.stop" : "verb.start")}
      <span className="hidden"> {workspace.name}</span>
    </Button>
  );
}
