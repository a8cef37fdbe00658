/** One workspace: what it is, what it is doing, what can be done, what happened. */

import { get } from "../api/client.ts";
import type { HistoryLine, Me, Page, Workspace } from "../api/types.ts";
import { useLoaded, useTitle } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { Link } from "../lib/router.tsx";
import { useWorkspace } from "../state/store.ts";
import { read } from "../state/verbs.ts";
import { Empty, Panel, Problem, Waiting } from "../ui/parts.tsx";
import { Archives } from "./workspace/archives.tsx";
import { Conditions } from "./workspace/conditions.tsx";
import { Head } from "./workspace/head.tsx";
import { History } from "./workspace/history.tsx";
import { LogTail } from "./workspace/logs.tsx";
import { Memo } from "./workspace/memo.tsx";
import { Now } from "./workspace/now.tsx";
import { Recovery } from "./workspace/recovery.tsx";
import { Settings } from "./workspace/settings.tsx";
import { Usage } from "./workspace/usage.tsx";

const FOREIGN_MS = 2_000;

/** One's own is live; what is in the trash, or somebody else's, is asked for every few seconds. */
export function WorkspaceScreen({ id, me }: { id: string; me: Me }) {
  const mine = useWorkspace(id);
  const asked = useLoaded(() => read(id), id, mine ? 0 : FOREIGN_MS);
  const workspace = mine ?? asked.data;
  useTitle(workspace?.name ?? t("nav.workspaces"));
  if (!workspace && asked.error?.status === 404) {
    return (
      <main>
        <Empty title={t("workspace.none")}>
          <p>{t("workspace.none_text")}</p>
          <Link href="/" className="button primary">
            {t("nav.workspaces")}
          </Link>
        </Empty>
      </main>
    );
  }
  if (!workspace) return <main>{asked.error ? <Problem error={asked.error} /> : <Waiting />}</main>;
  return <Whole workspace={workspace} me={me} reload={asked.reload} />;
}

function Whole({ workspace, me, reload }: { workspace: Workspace; me: Me; reload: () => Promise<void> }) {
  const { id } = workspace;
  // Every change of what it is or does is a new line of its history.
  const moment = `${id} ${workspace.phase} ${workspace.operation} ${workspace.error?.reason} ${workspace.error?.count}`;
  const history = useLoaded(() => get<Page<HistoryLine>>(`/workspaces/${id}/history`, { limit: 100 }), moment);
  const gone = workspace.deleted_at !== null;
  return (
    <main>
      <Head workspace={workspace} me={me} reload={reload} />
      <Recovery workspace={workspace} isAdmin={me.role === "admin"} reload={reload} />
      <Now workspace={workspace} history={history.data?.items ?? []} />
      <div className="columns">
        <div>
          <Memo workspace={workspace} reload={reload} />
          <Panel title={t("history.title")}>
            <Problem error={history.error} />
            <History lines={history.data?.items ?? null} more={!!history.data?.next_cursor} />
          </Panel>
          {!gone && <LogTail workspace={workspace} />}
        </div>
        <aside>
          <Usage workspace={workspace} />
          <Archives workspace={workspace} />
          <Conditions workspace={workspace} isAdmin={me.role === "admin"} />
          {!gone && <Settings key={id} workspace={workspace} reload={reload} />}
        </aside>
      </div>
    </main>
  );
}
