/** What can be set of one workspace: what it is for, its image, and when it stops and is archived by itself. */

import { type FormEvent, useState } from "react";
import { get } from "../../api/client.ts";
import type { Images, Workspace, WorkspaceChange } from "../../api/types.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { backendsFor, choicesOf, patternsOf } from "../../lib/images.ts";
import { t } from "../../lib/language.ts";
import { tagsOf } from "../../lib/tags.ts";
import { Button, Field, Panel, Problem } from "../../ui/parts.tsx";
import { say } from "../../ui/toasts.tsx";
import { ARCHIVE_CHOICES, STANDBY_CHOICES, TtlField } from "../../ui/ttl.tsx";
import { useEditing } from "./editing.ts";
import { Theirs } from "./theirs.tsx";

const FIELDS = ["description", "tags", "image_ref", "standby_ttl_seconds", "archive_ttl_seconds"] as const;

export function Settings({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [changed, setChanged] = useState<WorkspaceChange>({});
  // As they are typed.
  const [tags, setTags] = useState<string | null>(null);
  const [typedImage, setTypedImage] = useState("");
  const editing = useEditing(workspace, FIELDS);
  const images = useLoaded(() => get<Images>("/images"), "images");
  const now = { ...workspace, ...changed };
  const dirty = Object.keys(changed).length > 0;
  if (workspace.desired_state === "DELETED") return null;

  function edit(change: WorkspaceChange): void {
    if (!dirty) editing.begin();
    setChanged({ ...changed, ...change });
  }
  function forget(): void {
    editing.begin();
    setChanged({});
    setTags(null);
    setTypedImage("");
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
        <ImageField
          workspace={workspace}
          images={images.data}
          value={now.image_ref}
          typed={typedImage}
          onChange={(image_ref) => edit({ image_ref })}
          onType={(text) => {
            setTypedImage(text);
            edit({ image_ref: text.trim() || workspace.image_ref });
          }}
        />
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

interface ImageFieldProps {
  workspace: Workspace;
  images: Images | null;
  value: string;
  typed: string;
  onChange: (image: string) => void;
  onType: (text: string) => void;
}

/** The backend stays: what it cannot run is not offered. */
function ImageField({ workspace, images, value, typed, onChange, onType }: ImageFieldProps) {
  const { image_ref: current, backend } = workspace;
  const names = images ? choicesOf(images).flatMap((each) => (each.backend === backend ? each.image : [])) : [];
  const patterns = images ? patternsOf(images, backend) : [];
  const allowed = t("create.other_image_hint", { patterns: patterns.join(", ") });
  const refused = images && typed.trim() && !backendsFor(images, typed.trim()).includes(backend);
  return (
    <>
      <Field label={t("create.image")} hint={t("settings.image_hint")}>
        {(ids) => (
          <select
            {...ids}
            value={typed ? current : value}
            disabled={typed !== ""}
            onChange={(event) => onChange(event.target.value)}
          >
            {(names.includes(current) ? names : [current, ...names]).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
      </Field>
      {patterns.length > 0 && (
        <Field
          label={t("create.other_image")}
          hint={allowed}
          error={refused ? t("create.not_allowed", { allowed }) : null}
        >
          {(ids) => <input {...ids} value={typed} maxLength={512} onChange={(event) => onType(event.target.value)} />}
        </Field>
      )}
    </>
  );
}
