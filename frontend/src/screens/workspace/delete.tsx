/** Deleting: to the trash or for good; the name is typed, so that nothing is deleted by a slip. */

import { useId, useState } from "react";
import { ApiError } from "../../api/client.ts";
import type { Workspace } from "../../api/types.ts";
import { t } from "../../lib/language.ts";
import { remove } from "../../state/verbs.ts";
import { Ask } from "../../ui/dialog.tsx";
import { Field, Note } from "../../ui/parts.tsx";
import { say } from "../../ui/toasts.tsx";

interface Props {
  workspace: Workspace;
  onClose: () => void;
  onDone: (after: Workspace) => Promise<void>;
  /** Only for good: it is in the trash already. */
  purgeOnly?: boolean;
}

export function DeleteDialog({ workspace, onClose, onDone, purgeOnly = false }: Props) {
  const [purge, setPurge] = useState(purgeOnly);
  const [typed, setTyped] = useState("");
  const [losing, setLosing] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const group = useId();
  const name = workspace.name.trim();

  async function go(): Promise<void> {
    setBusy(true);
    setError(null);
    try {
      const after = await remove(workspace.id, { purge, confirm: losing !== null });
      say(t(purge ? "delete.purged" : "delete.deleted", { name }));
      await onDone(after);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      if (problem.code === "needs_confirmation") setLosing(problem.message);
      else setError(problem);
      setBusy(false);
    }
  }

  return (
    <Ask
      title={t("delete.title", { name })}
      yes={t(losing ? "delete.yes_lose" : purge ? "delete.yes_purge" : "delete.yes")}
      danger
      ready={typed.trim() === name}
      busy={busy}
      error={error}
      onYes={() => void go()}
      onClose={onClose}
    >
      {!purgeOnly && (
        <fieldset className="choices">
          <legend className="hidden">{t("delete.how")}</legend>
          <label>
            <input type="radio" name={group} checked={!purge} onChange={() => setPurge(false)} />
            <span>
              {t("delete.trash")}
              <small>{t("delete.trash_hint")}</small>
            </span>
          </label>
          <label>
            <input type="radio" name={group} checked={purge} onChange={() => setPurge(true)} />
            <span>
              {t("delete.purge")}
              <small>{t("delete.purge_hint")}</small>
            </span>
          </label>
        </fieldset>
      )}
      {purgeOnly && <p>{t("delete.purge_hint")}</p>}
      {losing && !purge && (
        <Note kind="warn">
          <p>{t("delete.losing")}</p>
          <p className="fine">{losing}</p>
        </Note>
      )}
      <Field label={t("delete.type", { name })}>
        {(ids) => (
          <input
            {...ids}
            value={typed}
            onChange={(event) => setTyped(event.target.value)}
            autoComplete="off"
            spellCheck={false}
            // biome-ignore lint/a11y/noAutofocus: the dialog was asked for to type it
            autoFocus
          />
        )}
      </Field>
    </Ask>
  );
}
