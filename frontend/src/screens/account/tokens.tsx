/** Tokens for programs. What a token is, is shown once. */

import { type FormEvent, useState } from "react";
import { end, get, post } from "../../api/client.ts";
import type { CreatedToken, Token } from "../../api/types.ts";
import { dateTime, relative } from "../../lib/format.ts";
import { useAsking, useLoaded } from "../../lib/hooks.ts";
import { counted, t } from "../../lib/language.ts";
import { CopyButton } from "../../ui/copy.tsx";
import { Button, Field, Note, Panel, Problem, Waiting } from "../../ui/parts.tsx";
import { complain } from "../../ui/toasts.tsx";

const DAYS = [7, 30, 90, 365];

export function Tokens() {
  const found = useLoaded(() => get<{ items: Token[] }>("/tokens"), "tokens");
  const [made, setMade] = useState<CreatedToken | null>(null);

  async function revoke(token: Token): Promise<void> {
    try {
      await end(`/tokens/${token.id}`);
      if (made?.id === token.id) setMade(null);
      await found.reload();
    } catch (error) {
      complain(error);
    }
  }

  return (
    <Panel title={t("tokens.title")}>
      <p className="fine">{t("tokens.text")}</p>
      {made && <Shown token={made} />}
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data && found.data.items.length > 0 && (
        <div className="scroll">
          <table className="stacks">
            <thead>
              <tr>
                <th>{t("tokens.name")}</th>
                <th>{t("tokens.scope")}</th>
                <th>{t("tokens.used")}</th>
                <th>{t("tokens.ends")}</th>
                <td />
              </tr>
            </thead>
            <tbody>
              {found.data.items.map((each) => (
                <tr key={each.id}>
                  <th scope="row">{each.name}</th>
                  <td data-label={t("tokens.scope")}>{t(`scope.${each.scope}`)}</td>
                  <td data-label={t("tokens.used")}>
                    {each.last_used_at ? relative(each.last_used_at) : t("time.never")}
                  </td>
                  <td data-label={t("tokens.ends")}>{each.expires_at ? dateTime(each.expires_at) : t("time.never")}</td>
                  <td data-label="">
                    <Button kind="quiet" icon="trash" onClick={() => void revoke(each)}>
                      {t("tokens.revoke")}
                      <span className="hidden"> {each.name}</span>
                    </Button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <NewToken
        onMade={(token) => {
          setMade(token);
          void found.reload();
        }}
      />
    </Panel>
  );
}

function Shown({ token }: { token: CreatedToken }) {
  return (
    <Note kind="good">
      <p>{t("tokens.once", { name: token.name })}</p>
      <p className="secret">
        <code>{token.token}</code>
        <CopyButton text={token.token} />
      </p>
    </Note>
  );
}

function NewToken({ onMade }: { onMade: (token: CreatedToken) => void }) {
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Token["scope"]>("read");
  const [days, setDays] = useState(90);
  const { busy, error, ask } = useAsking();

  async function make(): Promise<void> {
    onMade(await post<CreatedToken>("/tokens", { name: name.trim(), scope, expires_in_days: days || null }));
    setName("");
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    void ask(make);
  }

  return (
    <form className="inline-form" onSubmit={submit}>
      <Field label={t("tokens.name")}>
        {(ids) => (
          <input {...ids} value={name} maxLength={255} onChange={(event) => setName(event.target.value)} required />
        )}
      </Field>
      <Field label={t("tokens.scope")}>
        {(ids) => (
          <select {...ids} value={scope} onChange={(event) => setScope(event.target.value as Token["scope"])}>
            <option value="read">{t("scope.read")}</option>
            <option value="write">{t("scope.write")}</option>
          </select>
        )}
      </Field>
      <Field label={t("tokens.ends")}>
        {(ids) => (
          <select {...ids} value={days} onChange={(event) => setDays(Number(event.target.value))}>
            {DAYS.map((each) => (
              <option key={each} value={each}>
                {counted("tokens.days", each)}
              </option>
            ))}
            <option value={0}>{t("time.never")}</option>
          </select>
        )}
      </Field>
      <Button type="submit" kind="primary" icon="plus" busy={busy} disabled={!name.trim()}>
        {t("tokens.make")}
      </Button>
      <Problem error={error} />
    </form>
  );
}
