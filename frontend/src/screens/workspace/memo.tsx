/** Notes on the workspace, in Markdown. */

import type { Workspace } from "../../api/types.ts";
import { useDraft } from "../../lib/draft.ts";
import { t } from "../../lib/language.ts";
import { Markdown } from "../../lib/markdown.tsx";
import { Button, Panel, Problem } from "../../ui/parts.tsx";
import { useEditing } from "./editing.ts";
import { Theirs } from "./theirs.tsx";

export function Memo({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [draft, setDraft] = useDraft(`memo.${workspace.id}`);
  const editing = useEditing(workspace, ["memo"], draft ? { memo: draft.base } : {});
  const fixed = workspace.deleted_at !== null || workspace.desired_state === "DELETED";

  async function save(overwrite = false): Promise<void> {
    if (await editing.save({ memo: draft?.text || null }, overwrite)) {
      setDraft(null);
      await reload();
    }
  }

  if (draft === null) {
    return (
      <Panel
        title={t("memo.title")}
        actions={
          !fixed && (
            <Button
              kind="quiet"
              onClick={() => {
                editing.begin();
                setDraft({ text: workspace.memo ?? "", base: workspace.memo });
              }}
            >
              {t(workspace.memo ? "app.edit" : "memo.write")}
            </Button>
          )
        }
      >
        {workspace.memo ? <Markdown text={workspace.memo} /> : <p className="fine">{t("memo.none")}</p>}
      </Panel>
    );
  }
  return (
    <Panel title={t("memo.title")}>
      <textarea
        aria-label={t("memo.title")}
        value={draft.text}
        onChange={(event) => setDraft({ ...draft, text: event.target.value })}
        maxLength={20_000}
        rows={8}
        // biome-ignore lint/a11y/noAutofocus: it was asked for
        autoFocus
      />
      <p className="fine">{t("memo.hint")}</p>
      <Problem error={editing.error} />
      {editing.theirs && (
        <Theirs value={editing.theirs.memo ?? ""} onTake={() => setDraft(null)} onOverwrite={() => void save(true)} />
      )}
      <div className="verb-row end">
        <Button onClick={() => setDraft(null)}>{t("app.cancel")}</Button>
        <Button kind="primary" busy={editing.busy} onClick={() => void save()}>
          {t("app.save")}
        </Button>
      </div>
    </Panel>
  );
}
