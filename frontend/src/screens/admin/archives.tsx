/**
 * Collections of archives that nobody needs, and searches for containers and volumes of no workspace: what each found
 * and did, and asking for one.
 */

import { useState } from "react";
import { get, post } from "../../api/client.ts";
import type { GcRun, Page } from "../../api/types.ts";
import { bytes, count, dateTime } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Ask } from "../../ui/dialog.tsx";
import { Button, Empty, Problem, Spinner, Waiting } from "../../ui/parts.tsx";
import { complain, say } from "../../ui/toasts.tsx";

const OF_ARCHIVES = [
  "found",
  "bytes",
  "known",
  "orphans",
  "due",
  "foreign",
  "unremembered",
  "missing",
  "deleted",
  "spared",
  "failed",
] as const;
const OF_BACKENDS = ["found_here", "orphans", "due", "deleted", "spared", "failed"] as const;

type Order = "dry" | "real" | "orphans_dry" | "orphans_real";

export function Archives() {
  const found = useLoaded(() => get<Page<GcRun>>("/admin/gc", { limit: 20 }), "gc", 2_000);
  const [busy, setBusy] = useState<Order | null>(null);
  const [removing, setRemoving] = useState(false);

  async function ask(order: Order): Promise<void> {
    setBusy(order);
    try {
      await post("/admin/gc", { dry_run: order.endsWith("dry"), orphans: order.startsWith("orphans") });
      say(t("gc.asked"));
      await found.reload();
    } catch (error) {
      complain(error);
    } finally {
      setBusy(null);
      setRemoving(false);
    }
  }

  return (
    <>
      <p className="lead">{t("gc.text")}</p>
      <div className="verb-row">
        <Button kind="primary" busy={busy === "dry"} onClick={() => void ask("dry")}>
          {t("gc.dry")}
        </Button>
        <Button busy={busy === "real"} onClick={() => void ask("real")}>
          {t("gc.run")}
        </Button>
      </div>
      <p className="lead">{t("orphans.text")}</p>
      <div className="verb-row">
        <Button busy={busy === "orphans_dry"} onClick={() => void ask("orphans_dry")}>
          {t("orphans.find")}
        </Button>
        <Button onClick={() => setRemoving(true)}>{t("orphans.remove")}</Button>
      </div>
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data?.items.length === 0 && <Empty title={t("gc.none")} />}
      {found.data?.items.map((each) => (
        <Run key={each.id} run={each} />
      ))}
      {removing && (
        <Ask
          title={t("orphans.remove_title")}
          yes={t("orphans.remove_yes")}
          danger
          busy={busy === "orphans_real"}
          error={null}
          onYes={() => void ask("orphans_real")}
          onClose={() => setRemoving(false)}
        >
          <p>{t("orphans.remove_text")}</p>
        </Ask>
      )}
    </>
  );
}

function kindWord(run: GcRun): string {
  if (run.orphans) return t(run.dry_run ? "orphans.was_dry" : "orphans.was_run");
  return t(run.dry_run ? "gc.was_dry" : "gc.was_run");
}

function Run({ run }: { run: GcRun }) {
  const report = run.report ?? {};
  const stopped = report.stopped ?? report.error;
  const figures = run.orphans ? OF_BACKENDS : OF_ARCHIVES;
  return (
    <article className="panel run">
      <header>
        <h2>{dateTime(run.requested_at)}</h2>
        <span className="fine">
          {kindWord(run)} · {run.requested_by ? run.requested_by.username : t("gc.by_itself")}
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
          {figures.map((name) => (
            <div key={name}>
              <dt>{t(`gc.${name}`)}</dt>
              <dd>{figure(name, reported(report, name === "found_here" ? "found" : name))}</dd>
            </div>
          ))}
        </dl>
      )}
      <Keys title={t(run.orphans ? "orphans.names" : "gc.due_keys")} keys={report.due} />
      <Keys title={t("gc.foreign_keys")} keys={report.foreign} />
      <Keys title={t("gc.unremembered_keys")} keys={report.unremembered} />
    </article>
  );
}

/** Of what has a list, how many there are in all. */
function reported(report: Record<string, unknown>, name: string): unknown {
  return report[`${name}_count`] ?? report[name];
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
