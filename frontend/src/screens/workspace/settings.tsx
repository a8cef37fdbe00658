/** What can be set of one workspace: what it is for, its image, and when it stops and is archived by itself. */

import { type FormEvent, useState } from "react";
import { get } from "../../api/client.ts";
import type { Images, Workspace, WorkspaceChange } from "../../api/types.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Button, Field, Panel, Problem } from "../../ui/parts.tsx";
import { say } from "../../ui/toasts.tsx";
import { ARCHIVE_CHOICES, STANDBY_CHOICES, TtlField } from "../../ui/ttl.tsx";
import { useEditing } from "./editing.ts";
import { Theirs } from "./theirs.tsx";

const FIELDS = ["description", "tags", "image_ref", "standby_ttl_seconds", "archive_ttl_seconds"] as const;

/** What is between commas, each once. */
export function tagsOf(text: string): string[] {
  const tags = text.split(",").map((each) => each.trim());
  return [...new Set(tags.filter(Boolean))];
}

export function Settings({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [changed, setChanged] = useState<WorkspaceChange>({});
  const [tags, setTags] = useState<string | null>(null); // as they are typed
  const editing = useEditing(workspace, [...FIELDS]);
  const images = useLoaded(() => get<Images>("/images"), "images");
  const now = { ...workspace, ...changed };
  const dirty = Object.keys(changed).length > 0;
  const names = (images.data?.items ?? [])
    .filter((each) => each.backends.includes(workspace.backend) && !each.is_pattern)
    .map((each) => each.name);
  const offered = names.includes(workspace.image_ref) ? names : [workspace.image_ref, ...names];
  if (workspace.desired_state === "DELETED") return null;

  function edit(change: WorkspaceChange): void {
    if (!dirty) editing.begin();
    setChanged({ ...changed, ...change });
  }
  function forget(): void {
    setChanged({});
    setTags(null);
  }
  async function save(overwrite = false): Promise<void> {
    if (await editing.save(changed, overwrite)) {
      forget();
      say(t("settings.saved"));
      await reload();
    }
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    void save();
  }

  return (
    <Panel title={t("settings.title")}>
      <form onSubmit={submit}>
        <Field label={t("create.description")}>
          {(ids) => (
            <input
              {...ids}
              value={now.description ?? ""}
              maxLength={2000}
              onChange={(event) => edit({ description: event.target.value || null })}
            />
          )}
        </Field>
        <Field label={t("settings.tags")} hint={t("settings.tags_hint")}>
          {(ids) => (
            <input
              {...ids}
              value={tags ?? now.tags.join(", ")}
              onChange={(event) => {
                setTags(event.target.value);
                edit({ tags: tagsOf(event.target.value) });
              }}
            />
          )}
        </Field>
        <Field label={t("create.image")} hint={t("settings.image_hint")}>
          {(ids) => (
            <select {...ids} value={now.image_ref} onChange={(event) => edit({ image_ref: event.target.value })}>
              {offered.map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          )}
        </Field>
        <TtlField
          label={t("settings.standby")}
          hint={t("settings.standby_hint")}
          choices={STANDBY_CHOICES}
          value={now.standby_ttl_seconds}
          onChange={(value) => edit({ standby_ttl_seconds: value ?? 0 })}
        />
        <TtlField
          label={t("settings.archive")}
          hint={t("settings.archive_hint")}
          choices={ARCHIVE_CHOICES}
          value={now.archive_ttl_seconds}
          onChange={(value) => edit({ archive_ttl_seconds: value ?? 0 })}
        />
        <Problem error={editing.error} />
        {editing.theirs && (
          <Theirs
            value={FIELDS.map((field) => `${field}: ${editing.theirs?.[field] ?? ""}`).join("\n")}
            onTake={forget}
            onOverwrite={() => void save(true)}
          />
        )}
        {dirty && (
          <div className="verb-row end">
            <Button onClick={forget}>{t("app.cancel")}</Button>
            <Button type="submit" kind="primary" busy={editing.busy}>
              {t("app.save")}
            </Button>
          </div>
        )}
      </form>
    </Panel>
  );
}
