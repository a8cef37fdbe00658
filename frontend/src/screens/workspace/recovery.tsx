/** The way out of an error: what happened, and what the home may come from (SPEC section 8). */

import { useState } from "react";
import { ApiError } from "../../api/client.ts";
import type { RecoverFrom, Workspace } from "../../api/types.ts";
import { t } from "../../lib/language.ts";
import { conditionWord } from "../../lib/phrases.ts";
import { recover } from "../../state/verbs.ts";
import { Ask } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icons.tsx";
import { Button, Problem } from "../../ui/parts.tsx";
import { say } from "../../ui/toasts.tsx";

/** Those that give something up are asked about once more. */
const GIVES_UP: RecoverFrom[] = ["archive", "blank"];

export function Recovery({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [asking, setAsking] = useState<RecoverFrom | null>(null);
  const [busy, setBusy] = useState<RecoverFrom | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const trouble = workspace.error;
  if (workspace.phase !== "ERROR" || !trouble || workspace.deleted_at) return null;

  async function go(from: RecoverFrom): Promise<void> {
    setBusy(from);
    setError(null);
    try {
      await recover(workspace.id, from, false);
      setAsking(null);
      say(t("recovery.asked"));
      await reload();
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setError(problem);
    } finally {
      setBusy(null);
    }
  }

  return (
    <section className="recovery" aria-label={t("recovery.title")}>
      <h2>
        <Icon name="warning" />
        {t("recovery.title")}
      </h2>
      <p>{conditionWord({ status: false, reason: trouble.reason, message: trouble.message })}</p>
      {trouble.message && <p className="fine">{trouble.message}</p>}
      <ul className="choices">
        {trouble.can_recover_from.map((from) => (
          <li key={from}>
            <Button
              kind={from === "as_is" ? "primary" : "plain"}
              busy={busy === from}
              disabled={busy !== null}
              onClick={() => (GIVES_UP.includes(from) ? setAsking(from) : void go(from))}
            >
              {t(`recover.${from}`)}
            </Button>
            <span>{t(`recover.${from}_hint`)}</span>
          </li>
        ))}
      </ul>
      {!asking && <Problem error={error} />}
      {asking && (
        <Ask
          title={t(`recover.${asking}`)}
          yes={t("recovery.yes")}
          danger
          busy={busy !== null}
          error={error}
          onYes={() => void go(asking)}
          onClose={() => setAsking(null)}
        >
          <p>{t(`recover.${asking}_hint`)}</p>
        </Ask>
      )}
    </section>
  );
}
