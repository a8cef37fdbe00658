/** Users: making them, their role, their password, letting them in or not. */

import { type FormEvent, useDeferredValue, useState } from "react";
import { all, call, post } from "../../api/client.ts";
import type { User } from "../../api/types.ts";
import { dateTime, relative } from "../../lib/format.ts";
import { type Loading, useAsking, useLoaded } from "../../lib/hooks.ts";
import { language, t } from "../../lib/language.ts";
import { setQuery, useQuery } from "../../lib/router.tsx";
import { sorted, sortedBy, sortingOf } from "../../lib/sorting.ts";
import { CopyButton } from "../../ui/copy.tsx";
import { Ask } from "../../ui/dialog.tsx";
import { Button, Empty, Field, Panel, Problem, Waiting } from "../../ui/parts.tsx";
import { Search } from "../../ui/search.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { complain, say } from "../../ui/toasts.tsx";

export function useUsers(text = ""): Loading<User[]> {
  return useLoaded(() => all<User>("/users", { q: text }), `users ${text}`);
}

const COLUMNS = ["name", "role", "login", "last", "made"] as const;

function fieldOf(user: User, column: string): string | null {
  switch (column) {
    case "role":
      return t(`role.${user.role}`);
    case "login":
      return loginWord(user);
    case "last":
      return user.last_login_at;
    case "made":
      return user.created_at;
    default:
      return user.username;
  }
}

function loginWord(user: User): string {
  return user.disabled ? t("users.disabled") : t(`users.by_${user.login}`);
}

/** What is done to a user in a dialog of its own. */
interface Asked {
  what: "password" | "limits" | "delete";
  user: User;
}

export function Users() {
  const query = useQuery();
  const found = useUsers(useDeferredValue(query.get("q")?.trim() ?? ""));
  const sorting = sortingOf(query.get("sort"), COLUMNS, "made");
  const [asked, setAsked] = useState<Asked | null>(null);
  const close = (): void => setAsked(null);
  const reload = (): void => void found.reload();

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
      <div className="toolbar">
        <Search label={t("users.search")} />
      </div>
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data?.length === 0 && <Empty title={t("users.none")} />}
      {!!found.data?.length && (
        <Table
          columns={columns(change, setAsked)}
          items={sorted(found.data, sorting, fieldOf, new Intl.Collator(language(), { numeric: true }))}
          keyOf={(each) => each.id}
          isOff={(each) => each.disabled}
          sorting={sorting}
          onSort={(by) => setQuery({ sort: sortedBy(by, sorting) })}
        />
      )}
      <NewUser onMade={reload} />
      {asked?.what === "password" && <GivePassword user={asked.user} onClose={close} />}
      {asked?.what === "delete" && <DeleteUser user={asked.user} onClose={close} onDone={reload} />}
      {asked?.what === "limits" && <OwnLimits user={asked.user} onClose={close} onChanged={reload} />}
    </>
  );
}

type Change = (user: User, body: Partial<{ role: User["role"]; disabled: boolean }>) => Promise<void>;

function columns(change: Change, ask: (asked: Asked) => void): Column<User>[] {
  return [
    { name: "name", label: t("users.name"), isHeading: true, isSortable: true, cell: (each) => each.username },
    {
      name: "role",
      label: t("users.role"),
      isSortable: true,
      cell: (each) => (
        <select
          aria-label={`${t("users.role")} ${each.username}`}
          value={each.role}
          onChange={(event) => void change(each, { role: event.target.value as User["role"] })}
        >
          <option value="user">{t("role.user")}</option>
          <option value="admin">{t("role.admin")}</option>
        </select>
      ),
    },
    { name: "login", label: t("users.login"), isSortable: true, cell: loginWord },
    {
      name: "last",
      label: t("users.last_login"),
      isSortable: true,
      cell: (each) => (each.last_login_at ? relative(each.last_login_at) : t("users.never")),
    },
    { name: "made", label: t("users.made"), isSortable: true, cell: (each) => dateTime(each.created_at) },
    { name: "verbs", label: "", cell: (each) => <Verbs user={each} change={change} ask={ask} /> },
  ];
}

function Verbs({ user, change, ask }: { user: User; change: Change; ask: (asked: Asked) => void }) {
  const named = <span className="hidden"> {user.username}</span>;
  return (
    <div className="verb-row end">
      <Button kind="quiet" onClick={() => ask({ what: "limits", user })}>
        {limitsWord(user)}
        {named}
      </Button>
      {user.login !== "oidc" && (
        <Button kind="quiet" onClick={() => ask({ what: "password", user })}>
          {t("users.give_password")}
          {named}
        </Button>
      )}
      <Button kind="quiet" onClick={() => ask({ what: "delete", user })}>
        {t("verb.delete")}
        {named}
      </Button>
      <Button kind="quiet" onClick={() => void change(user, { disabled: !user.disabled })}>
        {t(user.disabled ? "users.enable" : "users.disable")}
        {named}
      </Button>
    </div>
  );
}

/** What becomes of their workspaces is chosen, the gentler way first. */
function DeleteUser({ user, onClose, onDone }: { user: User; onClose: () => void; onDone: () => void }) {
  const [workspaces, setWorkspaces] = useState<"trash" | "purge">("trash");
  const { busy, error, ask } = useAsking();

  async function remove(): Promise<void> {
    await call("DELETE", `/users/${user.id}`, { query: { workspaces } });
    say(t("users.deleted", { name: user.username }));
    onDone();
    onClose();
  }
  return (
    <Ask
      title={t("users.delete_title", { name: user.username })}
      yes={t("verb.delete")}
      danger
      busy={busy}
      error={error}
      onYes={() => void ask(remove)}
      onClose={onClose}
    >
      <p>{t("users.delete_text")}</p>
      {(["trash", "purge"] as const).map((each) => (
        <label key={each} className="check">
          <input type="radio" checked={workspaces === each} onChange={() => setWorkspaces(each)} />
          <span>{t(`users.leave_${each}`)}</span>
        </label>
      ))}
    </Ask>
  );
}

function limitsWord(user: User): string {
  return user.max_running === null ? t("users.limits") : t("users.limits_own", { n: user.max_running });
}

interface OwnLimitsProps {
  user: User;
  onClose: () => void;
  onChanged: () => void;
}

/** Limits of one user, which go before everybody's. */
function OwnLimits({ user, onClose, onChanged }: OwnLimitsProps) {
  const [running, setRunning] = useState(user.max_running?.toString() ?? "");
  const [workspaces, setWorkspaces] = useState(user.max_workspaces?.toString() ?? "");
  const { busy, error, ask } = useAsking();

  async function change(): Promise<void> {
    const body = { max_running: numberOf(running), max_workspaces: numberOf(workspaces) };
    await call("PATCH", `/users/${user.id}`, { body });
    say(t("users.changed", { name: user.username }));
    onChanged();
    onClose();
  }
  const fields = [
    ["users.max_running", running, setRunning],
    ["users.max_workspaces", workspaces, setWorkspaces],
  ] as const;
  return (
    <Ask
      title={t("users.limits_of", { name: user.username })}
      yes={t("app.save")}
      busy={busy}
      error={error}
      onYes={() => void ask(change)}
      onClose={onClose}
    >
      <p>{t("users.limits_text")}</p>
      {fields.map(([label, value, set]) => (
        <Field key={label} label={t(label)}>
          {(ids) => (
            <input
              {...ids}
              type="number"
              min={0}
              max={1_000_000}
              value={value}
              placeholder={t("users.limits_default")}
              onChange={(event) => set(event.target.value)}
            />
          )}
        </Field>
      ))}
    </Ask>
  );
}

function numberOf(text: string): number | null {
  return text === "" ? null : Number(text);
}

/** Twenty characters that are not taken for one another: about 100 bits. */
function generated(): string {
  const letters = "abcdefghjkmnpqrstuvwxyz23456789";
  const random = crypto.getRandomValues(new Uint8Array(200));
  const fair = [...random].filter((byte) => byte < 256 - (256 % letters.length)).slice(0, 20);
  const text = fair.map((byte) => letters[byte % letters.length]).join("");
  return text.replace(/(.{5})(?=.)/g, "$1-");
}

/** A password that somebody else will be told: readable where it was generated here. */
function PasswordInput({ ids, value, onChange }: { ids: object; value: string; onChange: (value: string) => void }) {
  const [shown, setShown] = useState(false);
  return (
    <span className="with-button">
      <input
        {...ids}
        type={shown ? "text" : "password"}
        value={value}
        autoComplete="new-password"
        onChange={(event) => onChange(event.target.value)}
      />
      <Button
        kind="quiet"
        onClick={() => {
          setShown(true);
          onChange(generated());
        }}
      >
        {t("users.generate")}
      </Button>
      {shown && value && <CopyButton text={value} />}
    </span>
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
          {(ids) => <PasswordInput ids={ids} value={password} onChange={setPassword} />}
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
        {(ids) => <PasswordInput ids={ids} value={password} onChange={setPassword} />}
      </Field>
    </Ask>
  );
}
