/** The way out of an error: what happened, and what the home may come from (SPEC section 8). */

import { useState } from "react";
import { ApiError } from "../../api/client.ts";
import type { RecoverFrom, Workspace } from "../../api/types.ts";
import { t } from "../../lib/language.ts";
import { conditionWord } from "../../lib/phrases.ts";
import { recover, startSafely } from "../../state/verbs.ts";
import { Ask } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icons.tsx";
import { Button, Problem } from "../../ui/parts.tsx";
import { say } from "../../ui/toasts.tsx";

/** Those that give something up are asked about once more. */
const GIVES_UP: RecoverFrom[] = ["archive", "blank"];

/** Administrators may do so although a whole home is on disk, which is then given up. */
function forcedOf(workspace: Workspace, isAdmin: boolean): RecoverFrom[] {
  const possible = workspace.error?.can_recover_from ?? [];
  const home = GIVES_UP.filter((from) => from !== "archive" || workspace.archived);
  return isAdmin ? home.filter((from) => !possible.includes(from)) : [];
}

interface RecoveryProps {
  workspace: Workspace;
  isAdmin: boolean;
  reload: () => Promise<void>;
}

export function Recovery({ workspace, isAdmin, reload }: RecoveryProps) {
  // As it was when the question was asked: what turns out to be on disk meanwhile is not given up by the same yes.
  const [asking, setAsking] = useState<{ from: RecoverFrom; forced: boolean } | null>(null);
  const [busy, setBusy] = useState<RecoverFrom | "safe" | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const trouble = workspace.error;
  if (workspace.phase !== "ERROR" || !trouble || workspace.deleted_at) return null;

  const forcible = forcedOf(workspace, isAdmin);

  async function go(from: RecoverFrom | "safe", forced: boolean): Promise<void> {
    setBusy(from);
    setError(null);
    try {
      await (from === "safe" ? startSafely(workspace.id) : recover(workspace.id, from, forced));
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
              onClick={() => (GIVES_UP.includes(from) ? setAsking({ from, forced: false }) : void go(from, false))}
            >
              {t(`recover.${from}`)}
            </Button>
            <span>{t(`recover.${from}_hint`)}</span>
          </li>
        ))}
        {workspace.conditions["storage.volume_ready"]?.status && (
          <li>
            <Button busy={busy === "safe"} disabled={busy !== null} onClick={() => void go("safe", false)}>
              {t("verb.start_safe")}
            </Button>
            <span>{t("recover.safe_hint")}</span>
          </li>
        )}
      </ul>
      {forcible.length > 0 && (
        <details>
          <summary>{t("recovery.forced")}</summary>
          <p className="fine">{t("recovery.forced_text")}</p>
          <div className="verb-row">
            {forcible.map((from) => (
              <Button
                key={from}
                kind="danger"
                disabled={busy !== null}
                onClick={() => setAsking({ from, forced: true })}
              >
                {t(`recover.${from}`)}
              </Button>
            ))}
          </div>
        </details>
      )}
      {!asking && <Problem error={error} />}
      {asking && (
        <Ask
          title={t(`recover.${asking.from}`)}
          yes={t("recovery.yes")}
          danger
          busy={busy !== null}
          error={error}
          onYes={() => void go(asking.from, asking.forced)}
          onClose={() => setAsking(null)}
        >
          <p>{t(`recover.${asking.from}_hint`)}</p>
          {asking.forced && <p>{t("recovery.forced_text")}</p>}
        </Ask>
      )}
    </section>
  );
}
