/** The name, and changing it. */

import { type FormEvent, useState } from "react";
import type { Workspace } from "../../api/types.ts";
import { t } from "../../lib/language.ts";
import { Button, Problem } from "../../ui/parts.tsx";
import { useEditing } from "./editing.ts";
import { Theirs } from "./theirs.tsx";

export function Rename({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [name, setName] = useState<string | null>(null);
  const editing = useEditing(workspace, ["name"]);
  if (name === null) {
    return (
      <h1>
        {workspace.name}
        {!workspace.deleted_at && workspace.desired_state !== "DELETED" && (
          <Button
            kind="quiet"
            className="small"
            onClick={() => {
              editing.begin();
              setName(workspace.name);
            }}
          >
            {t("verb.rename")}
          </Button>
        )}
      </h1>
    );
  }
  async function save(overwrite = false): Promise<void> {
    if (await editing.save({ name: (name ?? "").trim() }, overwrite)) {
      setName(null);
      await reload();
    }
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    void save();
  }
  return (
    <form className="rename" onSubmit={submit}>
      <input
        aria-label={t("create.name")}
        value={name}
        onChange={(event) => setName(event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && setName(null)}
        maxLength={255}
        // biome-ignore lint/a11y/noAutofocus: it was asked for
        autoFocus
        required
      />
      <Button type="submit" kind="primary" busy={editing.busy} disabled={!name.trim()}>
        {t("app.save")}
      </Button>
      <Button onClick={() => setName(null)}>{t("app.cancel")}</Button>
      <Problem error={editing.error} />
      {editing.theirs && (
        <Theirs value={editing.theirs.name} onTake={() => setName(null)} onOverwrite={() => void save(true)} />
      )}
    </form>
  );
}
