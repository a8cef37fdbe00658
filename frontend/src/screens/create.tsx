/** A new workspace: a name is enough, the rest has good answers already. */

import { useState } from "react";
import { ApiError, get } from "../api/client.ts";
import type { Images, NewWorkspace, Workspace } from "../api/types.ts";
import { type Loading, useLoaded, useTitle } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { explain } from "../lib/phrases.ts";
import { Link, navigate, useQuery } from "../lib/router.tsx";
import { insteadOf } from "../state/makeRoom.ts";
import { create, read } from "../state/verbs.ts";
import { Button, Field, Note, Problem } from "../ui/parts.tsx";
import { ARCHIVE_CHOICES, STANDBY_CHOICES, TtlField } from "../ui/ttl.tsx";

export function CreateWorkspace() {
  useTitle(t("create.title"));
  const images = useLoaded(() => get<Images>("/images"), "images");
  const source = useSource();
  const [typed, setTyped] = useState<string | null>(null);
  const name = typed ?? (source.data ? t("create.copy_of", { name: source.data.name }) : "");
  const [description, setDescription] = useState("");
  const [image, setImage] = useState("");
  const [other, setOther] = useState("");
  const [standby, setStandby] = useState<number | null>(null);
  const [archive, setArchive] = useState<number | null>(null);
  const [startNow, setStartNow] = useState(true);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const choices = choicesOf(images.data);
  const patterns = (images.data?.items ?? []).filter((each) => each.is_pattern);

  async function make(stop?: string): Promise<void> {
    setBusy(true);
    setError(null);
    const picked = image ? (JSON.parse(image) as [string, NonNullable<NewWorkspace["backend"]>]) : [];
    const [image_ref, backend] = other.trim() ? [other.trim(), patterns[0]?.backends[0]] : picked;
    const given: NewWorkspace = {
      name: name.trim(),
      desired_state: startNow ? "RUNNING" : "ARCHIVED",
      ...(description.trim() ? { description: description.trim() } : {}),
      ...(image_ref && backend ? { image_ref, backend } : {}),
      ...(source.data ? { from_archive: source.data.id } : {}),
      ...(standby === null ? {} : { standby_ttl_seconds: standby }),
      ...(archive === null ? {} : { archive_ttl_seconds: archive }),
    };
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
    <main className="narrow">
      <div className="page-head">
        <h1>{t("create.title")}</h1>
      </div>
      <Problem error={source.error} />
      {source.data && <Note>{t("create.from", { name: source.data.name })}</Note>}
      <form
        className="panel form"
        onSubmit={(event) => {
          event.preventDefault();
          void make();
        }}
      >
        <Field label={t("create.name")} hint={t("create.name_hint")}>
          {(ids) => (
            <input
              {...ids}
              value={name}
              onChange={(event) => setTyped(event.target.value)}
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
              value={description}
              onChange={(event) => setDescription(event.target.value)}
              maxLength={2000}
            />
          )}
        </Field>
        <Problem error={images.error} />
        <Field
          label={t("create.image")}
          hint={choices.length || !images.data ? t("create.image_hint") : null}
          error={images.data && !choices.length && !patterns.length ? t("create.no_images") : null}
        >
          {(ids) => (
            <select {...ids} value={image} onChange={(event) => setImage(event.target.value)}>
              {choices.map((each, index) => (
                <option key={each.value} value={index === 0 ? "" : each.value}>
                  {each.label}
                </option>
              ))}
            </select>
          )}
        </Field>
        {patterns.length > 0 && (
          <Field
            label={t("create.other_image")}
            hint={t("create.other_image_hint", { patterns: patterns.map((each) => each.name).join(", ") })}
          >
            {(ids) => (
              <input
                {...ids}
                value={other}
                onChange={(event) => setOther(event.target.value)}
                maxLength={512}
                required={!choices.length}
              />
            )}
          </Field>
        )}
        <details>
          <summary>{t("create.more")}</summary>
          <TtlField
            label={t("settings.standby")}
            hint={t("settings.standby_hint")}
            choices={STANDBY_CHOICES}
            value={standby}
            onChange={setStandby}
            usual
          />
          <TtlField
            label={t("settings.archive")}
            hint={t("settings.archive_hint")}
            choices={ARCHIVE_CHOICES}
            value={archive}
            onChange={setArchive}
            usual
          />
        </details>
        <label className="check">
          <input type="checkbox" checked={startNow} onChange={(event) => setStartNow(event.target.checked)} />
          <span>
            {t("create.start")}
            <small>{t("create.start_hint")}</small>
          </span>
        </label>
        <Problem error={error}>
          {error?.code === "over_limit" && startNow && (
            <div className="verb-row">
              {explain(error).running.map((one) => (
                <Button key={one.id} busy={busy} onClick={() => void make(one.id)}>
                  {t("create.instead", { stop: one.name })}
                </Button>
              ))}
              <Button onClick={() => setStartNow(false)}>{t("create.not_now")}</Button>
            </div>
          )}
        </Problem>
        <footer>
          <Link href="/" className="button plain">
            {t("app.cancel")}
          </Link>
          <Button type="submit" kind="primary" busy={busy} disabled={!name.trim()}>
            {t("create.button")}
          </Button>
        </footer>
      </form>
    </main>
  );
}

/** The workspace that the new one begins as a copy of, where the address names one. */
function useSource(): Loading<Workspace | null> {
  const from = useQuery().get("from");
  return useLoaded(async () => (from ? read(from) : null), `source ${from}`);
}

/** Each image on each backend; the first is what the server takes when nothing is said. */
function choicesOf(images: Images | null): { value: string; label: string }[] {
  if (!images) return [];
  const usual = images.default_backend;
  const several = new Set(images.items.flatMap((each) => each.backends)).size > 1;
  const fixed = images.items.filter((each) => !each.is_pattern);
  const pairs = fixed.flatMap((each) => each.backends.map((backend) => ({ name: each.name, backend })));
  pairs.sort((a, b) => Number(b.backend === usual) - Number(a.backend === usual));
  return pairs.map(({ name, backend }) => ({
    value: JSON.stringify([name, backend]),
    label: several ? t("create.image_on", { image: name, backend }) : name,
  }));
}
