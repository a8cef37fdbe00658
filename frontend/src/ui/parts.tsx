/** The pieces every screen is made of: buttons, fields, badges, notes. */

import { type ButtonHTMLAttributes, type ReactNode, useId } from "react";
import type { ApiError } from "../api/client.ts";
import type { Workspace } from "../api/types.ts";
import { t } from "../lib/language.ts";
import { explain, stateWord } from "../lib/phrases.ts";
import { Link } from "../lib/router.tsx";
import { Icon, type IconName } from "./icons.tsx";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  kind?: "primary" | "danger" | "plain" | "quiet";
  icon?: IconName;
  busy?: boolean;
};

export function Button({ kind = "plain", icon, busy = false, children, className = "", ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind} ${className}`}
      disabled={rest.disabled || busy}
      aria-busy={busy || undefined}
    >
      {busy ? <Spinner /> : icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function Spinner() {
  return <span className="spinner" aria-hidden="true" />;
}

/** What it is: a colour, a shape and a word; while something is under way the shape moves. */
export function Badge({ workspace }: { workspace: Workspace }) {
  const busy = workspace.operation !== "NONE";
  return (
    <span className={`badge phase-${workspace.phase.toLowerCase()}`} data-phase={workspace.phase}>
      {busy ? <Spinner /> : <span className="dot" aria-hidden="true" />}
      {stateWord(workspace)}
    </span>
  );
}

interface FieldProps {
  label: string;
  hint?: ReactNode;
  error?: string | null;
  children: (ids: { id: string; "aria-describedby"?: string; "aria-invalid"?: true }) => ReactNode;
}

export function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const more = `${id}-more`;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        ...(hint || error ? { "aria-describedby": more } : {}),
        ...(error ? { "aria-invalid": true as const } : {}),
      })}
      {(error || hint) && (
        <p id={more} className={error ? "field-error" : "field-hint"}>
          {error || hint}
        </p>
      )}
    </div>
  );
}

/** What went wrong, and the way out. */
export function Problem({ error, children }: { error: ApiError | null; children?: ReactNode }) {
  if (!error) return null;
  const { text, running } = explain(error);
  return (
    <div className="note bad" role="alert">
      <Icon name="warning" />
      <div>
        <p>{text}</p>
        {running.length > 0 && (
          <ul className="plain-list">
            {running.map((each) => (
              <li key={each.id}>
                <Link href={`/workspaces/${each.id}`}>{each.name}</Link>
              </li>
            ))}
          </ul>
        )}
        {children}
      </div>
    </div>
  );
}

export function Note({ kind = "info", children }: { kind?: "info" | "warn" | "good"; children: ReactNode }) {
  return (
    <div className={`note ${kind}`}>
      <Icon name={kind === "good" ? "check" : kind === "warn" ? "warning" : "clock"} />
      <div>{children}</div>
    </div>
  );
}

export function Waiting() {
  return (
    <p className="waiting" role="status">
      <Spinner /> {t("app.loading")}
    </p>
  );
}

/** Through a list page by page; `cursors` are those of the pages that were turned. */
export function Pager(props: { cursors: string[]; next: string | null | undefined; turn: (to: string[]) => void }) {
  const { cursors, next, turn } = props;
  return (
    <div className="verb-row pager">
      <Button disabled={!cursors.length} onClick={() => turn(cursors.slice(0, -1))}>
        {t("app.newer")}
      </Button>
      <Button disabled={!next} onClick={() => next && turn([...cursors, next])}>
        {t("app.older")}
      </Button>
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Panel({ title, actions, children }: { title: string; actions?: ReactNode; children: ReactNode }) {
  const id = useId();
  return (
    <section className="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
        {actions}
      </header>
      {children}
    </section>
  );
}
