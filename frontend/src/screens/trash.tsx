/** What was deleted: until when it can come back, and the way to be rid of it for good. */

import { useState } from "react";
import { all } from "../api/client.ts";
import type { Workspace } from "../api/types.ts";
import { dateTime, relative } from "../lib/format.ts";
import { useLoaded, useTitle } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { removalWord } from "../lib/phrases.ts";
import { Link, navigate } from "../lib/router.tsx";
import { undelete } from "../state/verbs.ts";
import { Badge, Button, Empty, Problem, Waiting } from "../ui/parts.tsx";
import { complain, say } from "../ui/toasts.tsx";
import { DeleteDialog } from "./workspace/delete.tsx";

export default function Trash() {
  useTitle(t("trash.title"));
  const found = useLoaded(() => all<Workspace>("/workspaces", { deleted: true }), "trash", 4_000);
  const [purging, setPurging] = useState<Workspace | null>(null);
  // What is gone for good is only a name that is left.
  const shown = found.data?.filter((each) => each.phase !== "DELETED");
  return (
    <main>
      <div className="page-head">
        <h1>{t("trash.title")}</h1>
      </div>
      <p className="lead">{t("trash.text")}</p>
      <Problem error={found.error} />
      {!shown && !found.error && <Waiting />}
      {shown?.length === 0 && <Empty title={t("trash.empty")} />}
      {shown && shown.length > 0 && (
        <ul className="rows" aria-label={t("trash.title")}>
          {shown.map((each) => (
            <li key={each.id}>
              <Item workspace={each} reload={found.reload} onPurge={() => setPurging(each)} />
            </li>
          ))}
        </ul>
      )}
      {purging && (
        <DeleteDialog
          workspace={purging}
          purgeOnly
          onClose={() => setPurging(null)}
          onDone={async () => {
            setPurging(null);
            await found.reload();
          }}
        />
      )}
    </main>
  );
}

interface ItemProps {
  workspace: Workspace;
  reload: () => Promise<void>;
  onPurge: () => void;
}

function Item({ workspace, reload, onPurge }: ItemProps) {
  const [busy, setBusy] = useState(false);
  const until = workspace.undelete_until;
  async function bring(): Promise<void> {
    setBusy(true);
    try {
      await undelete(workspace.id);
      say(t("trash.back", { name: workspace.name }));
      navigate(`/workspaces/${workspace.id}`);
    } catch (error) {
      complain(error);
      setBusy(false);
      await reload();
    }
  }
  return (
    <div className="row">
      <div className="row-main">
        <Link href={`/workspaces/${workspace.id}`} className="row-name">
          {workspace.name}
        </Link>
        <span className="row-about">
          {workspace.deleted_at && t("trash.deleted", { when: dateTime(workspace.deleted_at) })}
        </span>
      </div>
      <div className="row-state">
        <Badge workspace={workspace} />
        <span className="row-next">{until ? t("trash.ends", { when: relative(until) }) : removalWord(workspace)}</span>
      </div>
      <div className="row-do">
        {until && (
          <Button icon="restore" busy={busy} onClick={() => void bring()}>
            {t("verb.undelete")}
            <span className="hidden"> {workspace.name}</span>
          </Button>
        )}
        {until && (
          <Button kind="quiet" icon="trash" onClick={onPurge}>
            {t("verb.purge")}
            <span className="hidden"> {workspace.name}</span>
          </Button>
        )}
      </div>
    </div>
  );
}
