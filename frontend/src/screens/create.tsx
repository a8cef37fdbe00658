/** A new workspace: a name is enough, the rest has good answers already. */

import { type FormEvent, useState } from "react";
import { ApiError, get } from "../api/client.ts";
import type { Images, NewWorkspace } from "../api/types.ts";
import { useLoaded, useTitle } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { Link, navigate } from "../lib/router.tsx";
import { create } from "../state/verbs.ts";
import { Button, Field, Problem } from "../ui/parts.tsx";
import { ARCHIVE_CHOICES, STANDBY_CHOICES, TtlField } from "../ui/ttl.tsx";

export function CreateWorkspace() {
  useTitle(t("create.title"));
  const images = useLoaded(() => get<Images>("/images"), "images");
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [image, setImage] = useState("");
  const [standby, setStandby] = useState<number | null>(null);
  const [archive, setArchive] = useState<number | null>(null);
  const [startNow, setStartNow] = useState(true);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const choices = choicesOf(images.data);

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const [image_ref, backend] = image ? (JSON.parse(image) as [string, NonNullable<NewWorkspace["backend"]>]) : [];
    const given: NewWorkspace = {
      name: name.trim(),
      desired_state: startNow ? "RUNNING" : "ARCHIVED",
      ...(description.trim() ? { description: description.trim() } : {}),
      ...(image_ref && backend ? { image_ref, backend } : {}),
      ...(standby === null ? {} : { standby_ttl_seconds: standby }),
      ...(archive === null ? {} : { archive_ttl_seconds: archive }),
    };
    try {
      const made = await create(given);
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
      <form className="panel form" onSubmit={(event) => void submit(event)}>
        <Field label={t("create.name")} hint={t("create.name_hint")}>
          {(ids) => (
            <input
              {...ids}
              value={name}
              onChange={(event) => setName(event.target.value)}
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
          error={images.data && !choices.length ? t("create.no_images") : null}
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
            <Button onClick={() => setStartNow(false)}>{t("create.not_now")}</Button>
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

/** Each image on each backend; the first is what the server takes when nothing is said. */
function choicesOf(images: Images | null): { value: string; label: string }[] {
  if (!images) return [];
  const usual = images.default_backend;
  const several = new Set(images.items.flatMap((each) => each.backends)).size > 1;
  const pairs = images.items.flatMap((each) => each.backends.map((backend) => ({ name: each.name, backend })));
  pairs.sort((a, b) => Number(b.backend === usual) - Number(a.backend === usual));
  return pairs.map(({ name, backend }) => ({
    value: JSON.stringify([name, backend]),
    label: several ? t("create.image_on", { image: name, backend }) : name,
  }));
}
