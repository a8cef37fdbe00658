/** What can be done to all selected workspaces at once: to those that are seen, whatever else was selected before. */

import { useMemo, useState } from "react";
import type { Workspace } from "../api/types.ts";
import { counted, t } from "../lib/language.ts";
import { explain } from "../lib/phrases.ts";
import { applies, BULK_VERBS, type BulkVerb, doAll, type Outcome } from "../state/bulk.ts";
import { select, useSelection } from "../state/selection.ts";
import { store, useStoreVersion } from "../state/store.ts";
import { Ask } from "../ui/dialog.tsx";
import type { IconName } from "../ui/icons.tsx";
import { Button } from "../ui/parts.tsx";
import { say, warn } from "../ui/toasts.tsx";

const ICONS: Record<BulkVerb, IconName> = { start: "play", stop: "stop", archive: "archive", delete: "trash" };

export function BulkBar({ shown }: { shown: readonly string[] }) {
  useStoreVersion(); // what can be done depends on what each is
  const ids = useSelection();
  const [busy, setBusy] = useState<BulkVerb | null>(null);
  const [deleting, setDeleting] = useState<Workspace[] | null>(null);
  const seen = useMemo(() => new Set(shown), [shown]);
  const chosen = ids.flatMap((id) => (seen.has(id) ? (store.get(id) ?? []) : []));
  if (!chosen.length) return null;

  async function act(verb: BulkVerb, workspaces: readonly Workspace[]): Promise<void> {
    setBusy(verb);
    try {
      tell(verb, await doAll(verb, workspaces));
    } finally {
      setBusy(null);
      setDeleting(null);
    }
  }
  function ask(verb: BulkVerb): void {
    const workspaces = chosen.filter((each) => applies(verb, each));
    if (verb === "delete") setDeleting(workspaces);
    else void act(verb, workspaces);
  }

  return (
    <div className="bulk" role="toolbar" aria-label={t("bulk.title")}>
      <strong aria-live="polite">{counted("bulk.selected", chosen.length)}</strong>
      {BULK_VERBS.map((verb) => (
        <Button
          key={verb}
          icon={ICONS[verb]}
          busy={busy === verb}
          disabled={busy !== null || !chosen.some((each) => applies(verb, each))}
          onClick={() => ask(verb)}
        >
          {t(`verb.${verb}`)}
        </Button>
      ))}
      <Button kind="quiet" onClick={() => select(shown)}>
        {t("bulk.all")}
      </Button>
      <Button kind="quiet" icon="close" onClick={() => select([])}>
        {t("bulk.clear")}
      </Button>
      {deleting && (
        <Ask
          title={counted("bulk.delete", deleting.length)}
          yes={t("verb.delete")}
          danger
          busy={busy === "delete"}
          error={null}
          onYes={() => void act("delete", deleting)}
          onClose={() => setDeleting(null)}
        >
          <p>{t("bulk.delete_text")}</p>
          <ul className="plain-list scroll">
            {deleting.map((each) => (
              <li key={each.id}>{each.name}</li>
            ))}
          </ul>
        </Ask>
      )}
    </div>
  );
}

/** Those that failed stay selected. */
function tell(verb: BulkVerb, { done, failed }: Outcome): void {
  select(failed.map(({ workspace }) => workspace.id));
  if (done.length) say(counted(`bulk.done_${verb}`, done.length));
  const [first] = failed;
  if (first)
    warn(counted("bulk.failed", failed.length, { name: first.workspace.name, why: explain(first.error).text }));
}
