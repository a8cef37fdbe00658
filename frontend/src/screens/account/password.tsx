/** Changing one's password. */

import { type FormEvent, useState } from "react";
import { post } from "../../api/client.ts";
import { useAsking } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Button, Field, Panel, Problem } from "../../ui/parts.tsx";
import { say } from "../../ui/toasts.tsx";

export function Password() {
  const [current, setCurrent] = useState("");
  const [fresh, setFresh] = useState("");
  const [again, setAgain] = useState("");
  const { busy, error, ask } = useAsking();
  const differ = again !== "" && again !== fresh;

  async function change(): Promise<void> {
    await post("/password", { current, new: fresh });
    setCurrent("");
    setFresh("");
    setAgain("");
    say(t("password.changed"));
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    void ask(change);
  }

  const field = (value: string, set: (value: string) => void, autoComplete: string) => (ids: object) => (
    <input
      {...ids}
      type="password"
      value={value}
      onChange={(event) => set(event.target.value)}
      autoComplete={autoComplete}
      required
    />
  );
  return (
    <Panel title={t("password.title")}>
      <form className="form" onSubmit={submit}>
        <Field label={t("password.current")}>{field(current, setCurrent, "current-password")}</Field>
        <Field label={t("password.new")} hint={t("password.hint")}>
          {field(fresh, setFresh, "new-password")}
        </Field>
        <Field label={t("password.again")} error={differ ? t("password.differ") : null}>
          {field(again, setAgain, "new-password")}
        </Field>
        <Problem error={error} />
        <footer>
          <Button type="submit" kind="primary" busy={busy} disabled={!current || !fresh || again !== fresh}>
            {t("password.button")}
          </Button>
        </footer>
      </form>
    </Panel>
  );
}
