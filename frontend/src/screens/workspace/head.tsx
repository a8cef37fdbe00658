/** Name, state and what can be done. Buttons show what was asked; the badge shows what is. */

import { useState } from "react";
import type { Desired, Me, Workspace } from "../../api/types.ts";
import { dateTime } from "../../lib/format.ts";
import { t } from "../../lib/language.ts";
import { operationWord, removalWord } from "../../lib/phrases.ts";
import { Link, navigate } from "../../lib/router.tsx";
import { useSteady } from "../../lib/steady.ts";
import { isInSafeMode, undelete, want } from "../../state/verbs.ts";
import { Icon, type IconName } from "../../ui/icons.tsx";
import { Badge, Button } from "../../ui/parts.tsx";
import { complain, say } from "../../ui/toasts.tsx";
import { DeleteDialog } from "./delete.tsx";
import { KeepAwake } from "./keepAwake.tsx";
import { OpenLink } from "./openLink.tsx";
import { Rename } from "./rename.tsx";

interface Props {
  workspace: Workspace;
  me: Me;
  reload: () => Promise<void>;
}

export function Head({ workspace, me, reload }: Props) {
  const foreign = workspace.owner.id !== me.id;
  const gone = workspace.deleted_at !== null;
  return (
    <header className="workspace-head">
      <div className="title">
        <p className="crumbs">
          <Link href={gone ? "/trash" : "/"}>{gone ? t("nav.trash") : t("nav.workspaces")}</Link>
          {foreign && <span>{t("workspace.owner", { name: workspace.owner.username })}</span>}
        </p>
        <Rename workspace={workspace} reload={reload} />
        <p className="about">
          <Badge workspace={workspace} />
          {isInSafeMode(workspace) && <strong>{t("safe_mode.title")}</strong>}
          <span>{workspace.image_ref}</span>
          <span>{t("workspace.created", { when: dateTime(workspace.created_at) })}</span>
        </p>
        {workspace.description && <p>{workspace.description}</p>}
      </div>
      {gone ? <Gone workspace={workspace} reload={reload} /> : <Verbs workspace={workspace} reload={reload} />}
    </header>
  );
}

type Wanted = Exclude<Desired, "DELETED">;
interface Verb {
  to: Wanted;
  icon: IconName;
  label: string;
  safe?: boolean;
}

/** What can be asked of it, by what it is. */
function verbsOf(workspace: Workspace): Verb[] {
  const start: Verb = { to: "RUNNING", icon: "play", label: t("verb.start") };
  const safe: Verb = { to: "RUNNING", icon: "play", label: t("verb.start_safe"), safe: true };
  const stop: Verb = { to: "STANDBY", icon: "stop", label: t("verb.stop") };
  const restore: Verb = { to: "STANDBY", icon: "restore", label: t("verb.restore") };
  const archive: Verb = { to: "ARCHIVED", icon: "archive", label: t("verb.archive") };
  switch (workspace.phase) {
    case "RUNNING":
      return [stop, archive];
    case "STANDBY":
      return [start, archive, safe];
    case "ARCHIVED":
      return [start, restore];
    case "PENDING":
      return [start];
    default:
      return [];
  }
}

function isAskedFor(verb: Verb, { desired_state, safe_mode }: Workspace): boolean {
  return desired_state === verb.to && (verb.to !== "RUNNING" || safe_mode === !!verb.safe);
}

function Verbs({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [asking, setAsking] = useState<string | null>(null);
  const [deleting, setDeleting] = useState(false);
  const busy = workspace.operation !== "NONE";
  const steady = useSteady(workspace.phase);
  const going = workspace.desired_state === "DELETED";
  const pending = workspace.phase !== "ERROR" && workspace.desired_state !== workspace.phase;

  async function ask({ label, to, safe }: Verb): Promise<void> {
    setAsking(label);
    try {
      await want(workspace.id, to, safe);
      await reload();
    } catch (error) {
      complain(error, { name: workspace.name, again: () => want(workspace.id, to, safe) });
    } finally {
      setAsking(null);
    }
  }

  async function takeBack(): Promise<void> {
    try {
      await undelete(workspace.id);
      await reload();
      say(t("trash.back", { name: workspace.name }));
    } catch (error) {
      complain(error);
    }
  }

  return (
    <div className="verbs">
      {workspace.phase !== "ERROR" && !going && (
        <OpenLink workspace={workspace} className="button primary big">
          {t(workspace.phase === "RUNNING" ? "verb.open" : "verb.open_wake")}
        </OpenLink>
      )}
      <div className="verb-row">
        {!going &&
          verbsOf(workspace).map((verb) => (
            <Button
              key={verb.label}
              icon={verb.icon}
              busy={asking === verb.label || (pending && !busy && isAskedFor(verb, workspace))}
              disabled={busy || asking !== null || !steady}
              onClick={() => void ask(verb)}
            >
              {verb.label}
            </Button>
          ))}
        {workspace.archived && !going && (
          <Link className="button plain" href={`/workspaces/new?from=${workspace.id}`}>
            <Icon name="copy" />
            {t("verb.duplicate")}
          </Link>
        )}
        {workspace.phase === "RUNNING" && !going && <KeepAwake workspace={workspace} reload={reload} />}
        {going ? (
          <Button icon="restore" disabled={busy} onClick={() => void takeBack()}>
            {t("verb.keep_it")}
          </Button>
        ) : (
          <Button icon="trash" disabled={busy} onClick={() => setDeleting(true)}>
            {t("verb.delete")}
          </Button>
        )}
      </div>
      {busy && <p className="verb-note">{t("verb.wait", { operation: operationWord(workspace.operation) })}</p>}
      {deleting && (
        <DeleteDialog
          workspace={workspace}
          onClose={() => setDeleting(false)}
          onDone={async (after) => {
            setDeleting(false);
            await reload();
            if (after.deleted_at) navigate("/");
          }}
        />
      )}
    </div>
  );
}

/** In the trash: back, or gone for good. */
function Gone({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  async function bring(): Promise<void> {
    setBusy(true);
    try {
      await undelete(workspace.id);
      say(t("trash.back", { name: workspace.name }));
      await reload();
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <div className="verbs">
      {workspace.undelete_until ? (
        <>
          <Button kind="primary" icon="restore" busy={busy} onClick={() => void bring()}>
            {t("verb.undelete")}
          </Button>
          <p className="verb-note">{t("trash.until", { when: dateTime(workspace.undelete_until) })}</p>
        </>
      ) : (
        <p className="verb-note">{removalWord(workspace)}</p>
      )}
    </div>
  );
}
