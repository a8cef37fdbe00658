/** Users: making them, their role, their password, letting them in or not. */

import { type FormEvent, useState } from "react";
import { all, call, post } from "../../api/client.ts";
import type { User } from "../../api/types.ts";
import { dateTime } from "../../lib/format.ts";
import { useAsking, useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Ask } from "../../ui/dialog.tsx";
import { Button, Field, Panel, Problem, Waiting } from "../../ui/parts.tsx";
import { complain, say } from "../../ui/toasts.tsx";

export function Users() {
  const found = useLoaded(() => all<User>("/users"), "users");
  const [giving, setGiving] = useState<User | null>(null);

  async function change(user: User, body: Partial<{ role: User["role"]; disabled: boolean }>): Promise<void> {
    try {
      await call("PATCH", `/users/${user.id}`, { body });
      say(t("users.changed", { name: user.username }));
      await found.reload();
    } catch (error) {
      complain(error);
    }
  }

  return (
    <>
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data && (
        <div className="scroll panel flush">
          <table>
            <thead>
              <tr>
                <th>{t("users.name")}</th>
                <th>{t("users.role")}</th>
                <th>{t("users.login")}</th>
                <th>{t("users.made")}</th>
                <td />
              </tr>
            </thead>
            <tbody>
              {found.data.map((each) => (
                <tr key={each.id} className={each.disabled ? "off" : ""}>
                  <th scope="row">{each.username}</th>
                  <td>
                    <select
                      aria-label={`${t("users.role")} ${each.username}`}
                      value={each.role}
                      onChange={(event) => void change(each, { role: event.target.value as User["role"] })}
                    >
                      <option value="user">{t("role.user")}</option>
                      <option value="admin">{t("role.admin")}</option>
                    </select>
                  </td>
                  <td>{each.disabled ? t("users.disabled") : t(`users.by_${each.login}`)}</td>
                  <td>{dateTime(each.created_at)}</td>
                  <td>
                    <div className="verb-row end">
                      {each.login !== "oidc" && (
                        <Button kind="quiet" onClick={() => setGiving(each)}>
                          {t("users.give_password")}
                          <span className="hidden"> {each.username}</span>
                        </Button>
                      )}
                      <Button kind="quiet" onClick={() => void change(each, { disabled: !each.disabled })}>
                        {t(each.disabled ? "users.enable" : "users.disable")}
                        <span className="hidden"> {each.username}</span>
                      </Button>
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <NewUser onMade={() => void found.reload()} />
      {giving && <GivePassword user={giving} onClose={() => setGiving(null)} />}
    </>
  );
}

function NewUser({ onMade }: { onMade: () => void }) {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [role, setRole] = useState<User["role"]>("user");
  const { busy, error, ask } = useAsking();

  async function make(): Promise<void> {
    await post("/users", { username: username.trim(), role, password: password || null });
    say(t("users.added", { name: username }));
    setUsername("");
    setPassword("");
    onMade();
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    void ask(make);
  }

  return (
    <Panel title={t("users.new")}>
      <form className="inline-form" onSubmit={submit}>
        <Field label={t("users.name")}>
          {(ids) => (
            <input
              {...ids}
              value={username}
              maxLength={64}
              autoComplete="off"
              onChange={(event) => setUsername(event.target.value)}
              required
            />
          )}
        </Field>
        <Field label={t("login.password")}>
          {(ids) => (
            <input
              {...ids}
              type="password"
              value={password}
              autoComplete="new-password"
              onChange={(event) => setPassword(event.target.value)}
            />
          )}
        </Field>
        <Field label={t("users.role")}>
          {(ids) => (
            <select {...ids} value={role} onChange={(event) => setRole(event.target.value as User["role"])}>
              <option value="user">{t("role.user")}</option>
              <option value="admin">{t("role.admin")}</option>
            </select>
          )}
        </Field>
        <Button type="submit" kind="primary" icon="plus" busy={busy} disabled={!username.trim()}>
          {t("users.add")}
        </Button>
        <Problem error={error} />
      </form>
      <p className="fine">{t("users.password_hint")}</p>
    </Panel>
  );
}

function GivePassword({ user, onClose }: { user: User; onClose: () => void }) {
  const [password, setPassword] = useState("");
  const { busy, error, ask } = useAsking();

  async function give(): Promise<void> {
    await call("PATCH", `/users/${user.id}`, { body: { password } });
    say(t("users.changed", { name: user.username }));
    onClose();
  }
  return (
    <Ask
      title={t("users.password_of", { name: user.username })}
      yes={t("users.give_password")}
      ready={password !== ""}
      busy={busy}
      error={error}
      onYes={() => void ask(give)}
      onClose={onClose}
    >
      <p>{t("users.password_text")}</p>
      <Field label={t("password.new")} hint={t("password.hint")}>
        {(ids) => (
          <input
            {...ids}
            type="password"
            value={password}
            autoComplete="new-password"
            onChange={(event) => setPassword(event.target.value)}
            required
          />
        )}
      </Field>
    </Ask>
  );
}
