/** The limits of all users, changed while CodeHub runs. An empty field is what is configured. */

import { type FormEvent, useState } from "react";
import { call } from "../../api/client.ts";
import type { Limits } from "../../api/types.ts";
import { useAsking } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Button, Field, Problem } from "../../ui/parts.tsx";
import { say } from "../../ui/toasts.tsx";

const NAMES = ["max_running_per_user", "max_running_global", "max_workspaces_per_user"] as const;
type Name = (typeof NAMES)[number];
type Texts = Record<Name, string>;

interface Props {
  limits: Limits;
  reload: () => Promise<void>;
}

export function SetLimits({ limits, reload }: Props) {
  const [open, setOpen] = useState(false);
  return (
    <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t("limits.change")}</summary>
      {open && <Form limits={limits} reload={reload} />}
    </details>
  );
}

function Form({ limits, reload }: Props) {
  const [texts, setTexts] = useState<Texts>(() => textsOf(limits));
  const { busy, error, ask } = useAsking();

  async function change(): Promise<void> {
    const body = Object.fromEntries(NAMES.map((name) => [name, texts[name] === "" ? null : Number(texts[name])]));
    await call("PUT", "/admin/limits", { body });
    say(t("limits.changed"));
    await reload();
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    void ask(change);
  }
  return (
    <form className="form" onSubmit={submit}>
      {NAMES.map((name) => (
        <Field key={name} label={t(`limits.${name}`)}>
          {(ids) => (
            <input
              {...ids}
              type="number"
              min={1}
              max={1_000_000}
              value={texts[name]}
              placeholder={t("limits.configured", { n: limits.configured[name] ?? 0 })}
              onChange={(event) => setTexts({ ...texts, [name]: event.target.value })}
            />
          )}
        </Field>
      ))}
      <p className="fine">{t("limits.text")}</p>
      <Problem error={error} />
      <footer>
        <Button type="submit" kind="primary" busy={busy}>
          {t("app.save")}
        </Button>
      </footer>
    </form>
  );
}

function textsOf(limits: Limits): Texts {
  const texts = NAMES.map((name) => [name, limits.set[name]?.toString() ?? ""]);
  return Object.fromEntries(texts) as Texts;
}
