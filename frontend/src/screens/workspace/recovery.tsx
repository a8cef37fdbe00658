/** The way out of an error: what happened, and what the home may come from (SPEC section 8). */

import { useState } from "react";
import { ApiError } from "../../api/client.ts";
import type { RecoverFrom, Workspace } from "../../api/types.ts";
import { t } from "../../lib/language.ts";
import { conditionWord, phaseWord } from "../../lib/phrases.ts";
import { AFTERWARDS, type Afterwards, afterwardsOf, forcedOf, GIVES_UP } from "../../lib/recovering.ts";
import { recover, startSafely } from "../../state/verbs.ts";
import { Ask } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icons.tsx";
import { Button, Problem } from "../../ui/parts.tsx";
import { say } from "../../ui/toasts.tsx";

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
  const [chosen, setChosen] = useState<Afterwards | null>(null);
  const trouble = workspace.error;
  if (workspace.phase !== "ERROR" || !trouble || workspace.deleted_at) return null;

  const forcible = forcedOf(workspace, isAdmin);
  const afterwards = afterwardsOf(workspace, chosen);
  const consequence = (from: RecoverFrom) => t(from === "volume" ? "recovery.unproven_text" : "recovery.forced_text");

  async function go(from: RecoverFrom | "safe", forced: boolean): Promise<void> {
    setBusy(from);
    setError(null);
    try {
      await (from === "safe" ? startSafely(workspace.id) : recover(workspace.id, from, forced, afterwards));
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
        {afterwards && workspace.conditions["storage.volume_ready"]?.status && (
          <li>
            <Button busy={busy === "safe"} disabled={busy !== null} onClick={() => void go("safe", false)}>
              {t("verb.start_safe")}
            </Button>
            <span>{t("recover.safe_hint")}</span>
          </li>
        )}
      </ul>
      {afterwards && (
        <label className="sort">
          <span>{t("recovery.then")}</span>
          <select value={afterwards} onChange={(event) => setChosen(event.target.value as Afterwards)}>
            {AFTERWARDS.map((each) => (
              <option key={each} value={each}>
                {phaseWord(each)}
              </option>
            ))}
          </select>
        </label>
      )}
      {[forcible.filter((from) => from === "volume"), forcible.filter((from) => from !== "volume")].map(
        ([first, ...more]) =>
          first && (
            <details key={first}>
              <summary>{t(first === "volume" ? "recovery.unproven" : "recovery.forced")}</summary>
              <p className="fine">{consequence(first)}</p>
              <div className="verb-row">
                {[first, ...more].map((from) => (
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
          ),
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
          {!(asking.forced && asking.from === "volume") && <p>{t(`recover.${asking.from}_hint`)}</p>}
          {asking.forced && <p>{consequence(asking.from)}</p>}
        </Ask>
      )}
    </section>
  );
}
