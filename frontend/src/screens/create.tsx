/** A new workspace: a name is enough, the rest has good answers already. A copy begins as what it is a copy of. */

import { useState } from "react";
import { ApiError, get } from "../api/client.ts";
import type { Images, NewWorkspace, Workspace } from "../api/types.ts";
import { type Loading, useLoaded, useTitle } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { explain } from "../lib/phrases.ts";
import { Link, navigate, useQuery } from "../lib/router.tsx";
import { tagsOf } from "../lib/tags.ts";
import { insteadOf } from "../state/makeRoom.ts";
import { create, read } from "../state/verbs.ts";
import { Button, Field, Note, Problem, Waiting } from "../ui/parts.tsx";
import { ARCHIVE_CHOICES, STANDBY_CHOICES, TtlField } from "../ui/ttl.tsx";
import { ImageFields, imageOf, type Picked, pickedOf } from "./create/image.tsx";

export function CreateWorkspace() {
  useTitle(t("create.title"));
  const images = useLoaded(() => get<Images>("/images"), "images");
  const source = useSource();
  const ready = !source.isAsked || source.error || (source.data && (images.data || images.error));
  return (
    <main className="narrow">
      <div className="page-head">
        <h1>{t("create.title")}</h1>
      </div>
      <Problem error={source.error} />
      {source.data && <Note>{t("create.from", { name: source.data.name })}</Note>}
      {ready ? <NewForm key={source.data?.id} source={source.data} images={images} /> : <Waiting />}
    </main>
  );
}

interface Filled {
  name: string;
  description: string;
  tags: string;
  standby: number | null;
  archive: number | null;
  startNow: boolean;
}

function filledFrom(source: Workspace | null): Filled {
  return {
    name: source ? t("create.copy_of", { name: source.name }) : "",
    description: source?.description ?? "",
    tags: source?.tags.join(", ") ?? "",
    standby: source?.standby_ttl_seconds ?? null,
    archive: source?.archive_ttl_seconds ?? null,
    startNow: true,
  };
}

function asked(filled: Filled, source: Workspace | null): NewWorkspace {
  const { name, description, tags, standby, archive, startNow } = filled;
  return {
    name: name.trim(),
    desired_state: startNow ? "RUNNING" : "ARCHIVED",
    tags: tagsOf(tags),
    ...(description.trim() ? { description: description.trim() } : {}),
    ...(source ? { from_archive: source.id } : {}),
    ...(standby === null ? {} : { standby_ttl_seconds: standby }),
    ...(archive === null ? {} : { archive_ttl_seconds: archive }),
  };
}

function NewForm({ source, images }: { source: Workspace | null; images: Loading<Images> }) {
  const [filled, setFilled] = useState(() => filledFrom(source));
  const [picked, setPicked] = useState<Picked>(() => pickedOf(source, images.data));
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const fill = (change: Partial<Filled>): void => setFilled({ ...filled, ...change });

  async function make(stop?: string): Promise<void> {
    setBusy(true);
    setError(null);
    const given = { ...asked(filled, source), ...imageOf(picked, images.data) };
    try {
      const made = await (stop ? insteadOf(stop, () => create(given)) : create(given));
      navigate(`/workspaces/${made.id}`, { replace: true });
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setError(problem);
      setBusy(false);
    }
  }

  return (
    <form
      className="panel form"
      onSubmit={(event) => {
        event.preventDefault();
        void make();
      }}
    >
      <Described filled={filled} fill={fill} />
      <Problem error={images.error} />
      <ImageFields
        images={images.data}
        picked={picked}
        onPick={(change) => setPicked({ ...picked, ...change })}
        source={source}
      />
      <Later filled={filled} fill={fill} />
      <Problem error={error}>
        {error?.code === "over_limit" && filled.startNow && (
          <div className="verb-row">
            {explain(error).running.map((one) => (
              <Button key={one.id} busy={busy} onClick={() => void make(one.id)}>
                {t("create.instead", { stop: one.name })}
              </Button>
            ))}
            <Button onClick={() => fill({ startNow: false })}>{t("create.not_now")}</Button>
          </div>
        )}
      </Problem>
      <footer>
        <Link href="/" className="button plain">
          {t("app.cancel")}
        </Link>
        <Button type="submit" kind="primary" busy={busy} disabled={!filled.name.trim()}>
          {t("create.button")}
        </Button>
      </footer>
    </form>
  );
}

interface Filling {
  filled: Filled;
  fill: (change: Partial<Filled>) => void;
}

function Described({ filled, fill }: Filling) {
  return (
    <>
      <Field label={t("create.name")} hint={t("create.name_hint")}>
        {(ids) => (
          <input
            {...ids}
            value={filled.name}
            onChange={(event) => fill({ name: event.target.value })}
            maxLength={255}
            // biome-ignore lint/a11y/noAutofocus: it is the one thing that must be filled in
            autoFocus
            required
          />
        )}
      </Field>
      <Field label={t("create.description")}>
        {(ids) => (
          <input
            {...ids}
            value={filled.description}
            onChange={(event) => fill({ description: event.target.value })}
            maxLength={2000}
          />
        )}
      </Field>
      <Field label={t("settings.tags")} hint={t("settings.tags_hint")}>
        {(ids) => <input {...ids} value={filled.tags} onChange={(event) => fill({ tags: event.target.value })} />}
      </Field>
    </>
  );
}

/** When it stops and is archived by itself, and whether it starts now. */
function Later({ filled, fill }: Filling) {
  return (
    <>
      <details>
        <summary>{t("create.more")}</summary>
        <TtlField
          label={t("settings.standby")}
          hint={t("settings.standby_hint")}
          choices={STANDBY_CHOICES}
          value={filled.standby}
          onChange={(standby) => fill({ standby })}
          usual
        />
        <TtlField
          label={t("settings.archive")}
          hint={t("settings.archive_hint")}
          choices={ARCHIVE_CHOICES}
          value={filled.archive}
          onChange={(archive) => fill({ archive })}
          usual
        />
      </details>
      <label className="check">
        <input
          type="checkbox"
          checked={filled.startNow}
          onChange={(event) => fill({ startNow: event.target.checked })}
        />
        <span>
          {t("create.start")}
          <small>{t("create.start_hint")}</small>
        </span>
      </label>
    </>
  );
}

/** The workspace that the new one begins as a copy of, where the address names one. */
function useSource(): Loading<Workspace | null> & { isAsked: boolean } {
  const from = useQuery().get("from");
  const found = useLoaded(async () => (from ? read(from) : null), `source ${from}`);
  return { ...found, isAsked: from !== null };
}
