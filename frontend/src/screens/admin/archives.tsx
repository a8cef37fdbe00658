/** Collections of archives that nobody needs: what each found and did, and asking for one. */

import { useState } from "react";
import { get, post } from "../../api/client.ts";
import type { GcRun, Page } from "../../api/types.ts";
import { bytes, count, dateTime } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Button, Empty, Problem, Spinner, Waiting } from "../../ui/parts.tsx";
import { complain, say } from "../../ui/toasts.tsx";

const FIGURES = [
  "found",
  "bytes",
  "known",
  "orphans",
  "due",
  "foreign",
  "missing",
  "deleted",
  "spared",
  "failed",
] as const;

export function Archives() {
  const found = useLoaded(() => get<Page<GcRun>>("/admin/gc", { limit: 20 }), "gc", 2_000);
  const [busy, setBusy] = useState<"dry" | "real" | null>(null);

  async function ask(dry_run: boolean): Promise<void> {
    setBusy(dry_run ? "dry" : "real");
    try {
      await post("/admin/gc", { dry_run });
      say(t("gc.asked"));
      await found.reload();
    } catch (error) {
      complain(error);
    } finally {
      setBusy(null);
    }
  }

  return (
    <>
      <p className="lead">{t("gc.text")}</p>
      <div className="verb-row">
        <Button kind="primary" busy={busy === "dry"} onClick={() => void ask(true)}>
          {t("gc.dry")}
        </Button>
        <Button busy={busy === "real"} onClick={() => void ask(false)}>
          {t("gc.run")}
        </Button>
      </div>
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data?.items.length === 0 && <Empty title={t("gc.none")} />}
      {found.data?.items.map((each) => (
        <Run key={each.id} run={each} />
      ))}
    </>
  );
}

function Run({ run }: { run: GcRun }) {
  const report = run.report ?? {};
  const stopped = report.stopped ?? report.error;
  return (
    <article className="panel run">
      <header>
        <h2>{dateTime(run.requested_at)}</h2>
        <span className="fine">
          {run.dry_run ? t("gc.was_dry") : t("gc.was_run")} ·{" "}
          {run.requested_by ? run.requested_by.username : t("gc.by_itself")}
        </span>
      </header>
      {!run.finished_at && (
        <p>
          <Spinner /> {t("gc.running")}
        </p>
      )}
      {typeof stopped === "string" && <p className="now-trouble">{stopped}</p>}
      {run.finished_at && (
        <dl className="figures">
          {FIGURES.map((name) => (
            <div key={name}>
              <dt>{t(`gc.${name}`)}</dt>
              <dd>{figure(name, report[`${name}_count`] ?? report[name])}</dd>
            </div>
          ))}
        </dl>
      )}
      <Keys title={t("gc.due_keys")} keys={report.due} />
      <Keys title={t("gc.foreign_keys")} keys={report.foreign} />
    </article>
  );
}

function figure(name: string, value: unknown): string {
  if (typeof value !== "number") return "–";
  return name === "bytes" ? bytes(value) : count(value);
}

function Keys({ title, keys }: { title: string; keys: unknown }) {
  if (!Array.isArray(keys) || !keys.length) return null;
  return (
    <details>
      <summary>{title}</summary>
      <ul className="plain-list keys">
        {keys.slice(0, 200).map((each) => (
          <li key={String(each)}>
            <code>{String(each)}</code>
          </li>
        ))}
      </ul>
    </details>
  );
}
