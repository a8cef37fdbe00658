/** Asks for the password again where something needs a fresh proof; people of an OpenID provider are sent there. */

import { useEffect, useRef, useState } from "react";
import { get, keepProof, onProofAsked, post } from "../api/client.ts";
import { useAsking } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { Ask } from "./dialog.tsx";
import { Field } from "./parts.tsx";

interface Proof {
  proof: string;
  seconds: number;
}

/** What a login with the provider came back with stands in the fragment, which no server sees; it is taken out at once. */
export function takeProof(): void {
  const found = /^#proof=([A-Za-z0-9_-]{43})$/.exec(location.hash);
  if (!found?.[1]) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  keepProof({ proof: found[1], seconds: 300 });
}

export function ProofAsked() {
  const [open, setOpen] = useState(false);
  const [hasProvider, setHasProvider] = useState(false);
  const [password, setPassword] = useState("");
  const { busy, error, ask } = useAsking();
  const answer = useRef<((given: boolean) => void) | null>(null);

  useEffect(() => {
    onProofAsked(() => {
      answer.current?.(false);
      setOpen(true);
      get<{ oidc: boolean }>("/login").then(
        ({ oidc }) => setHasProvider(oidc),
        () => setHasProvider(false),
      );
      return new Promise((resolve) => {
        answer.current = resolve;
      });
    });
  }, []);

  function close(given: boolean): void {
    setOpen(false);
    setPassword("");
    answer.current?.(given);
    answer.current = null;
  }
  async function prove(): Promise<void> {
    keepProof(await post<Proof>("/session/proof", { password }));
    close(true);
  }
  if (!open) return null;
  return (
    <Ask
      title={t("proof.title")}
      yes={t("proof.button")}
      ready={password !== ""}
      busy={busy}
      error={error}
      onYes={() => void ask(prove)}
      onClose={() => close(false)}
    >
      <p>{t("proof.text")}</p>
      <Field label={t("login.password")}>
        {(ids) => (
          <input
            {...ids}
            type="password"
            value={password}
            autoComplete="current-password"
            onChange={(event) => setPassword(event.target.value)}
            required
          />
        )}
      </Field>
      {hasProvider && (
        <p>
          <a href={`/api/v1/login/oidc?fresh=true&next=${encodeURIComponent(location.pathname)}`}>
            {t("proof.provider")}
          </a>
        </p>
      )}
    </Ask>
  );
}
