/** Logging in: with a password, and through the OpenID provider where there is one. */

import { type FormEvent, useEffect, useState } from "react";
import { ApiError, get, keepProof, post } from "../api/client.ts";
import type { LoginOptions } from "../api/types.ts";
import { useTitle } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { localPath } from "../lib/localPath.ts";
import { navigate } from "../lib/router.tsx";
import { Button, Field, Problem } from "../ui/parts.tsx";
import { Brand, Preferences } from "./shell.tsx";

/** Workspaces are no screens of this page: they are loaded. */
function goOn(next: string, loggedIn: () => Promise<void>): void {
  if (/^\/(w|api|\.codehub)(\/|$)/.test(next)) location.assign(next);
  else void loggedIn().then(() => navigate(next.startsWith("/login") ? "/" : next, { replace: true }));
}

export function Login({ onLogin }: { onLogin: () => Promise<void> }) {
  useTitle(t("login.title"));
  const query = new URLSearchParams(location.search);
  const next = localPath(query.get("next"));
  const failed = query.get("error");
  const [options, setOptions] = useState<LoginOptions | null>(null);
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(failed ? new ApiError(401, failed, "") : null);

  useEffect(() => {
    get<LoginOptions>("/login").then(setOptions, () => undefined);
  }, []);

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      keepProof(await post<{ proof: string; seconds: number }>("/login", { username, password }));
      goOn(next, onLogin);
    } catch (problem) {
      if (!(problem instanceof ApiError)) throw problem;
      setError(problem);
      setPassword("");
      setBusy(false);
    }
  }

  return (
    <div className="login-page">
      <main className="login">
        <Brand />
        <h1>{t("login.title")}</h1>
        <form onSubmit={(event) => void submit(event)}>
          <Field label={t("login.username")}>
            {(ids) => (
              <input
                {...ids}
                value={username}
                onChange={(event) => setUsername(event.target.value)}
                autoComplete="username"
                autoCapitalize="none"
                spellCheck={false}
                // biome-ignore lint/a11y/noAutofocus: it is the only thing to do here
                autoFocus
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
                onChange={(event) => setPassword(event.target.value)}
                autoComplete="current-password"
                required
              />
            )}
          </Field>
          <Problem error={error} />
          <Button type="submit" kind="primary" className="big" busy={busy}>
            {t("login.button")}
          </Button>
        </form>
        {options?.oidc && (
          <a className="button plain big" href={`/api/v1/login/oidc?next=${encodeURIComponent(next)}`}>
            {t("login.oidc")}
          </a>
        )}
        {options?.first_start && (
          <aside className="hint">
            <h2>{t("login.first_title")}</h2>
            <p>{t("login.first_text")}</p>
          </aside>
        )}
      </main>
      <footer>
        <Preferences />
      </footer>
    </div>
  );
}
