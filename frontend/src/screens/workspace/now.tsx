/** What it is doing at this moment, how far it has got, and what comes next by itself and why. */

import { serverNow } from "../../api/client.ts";
import type { HistoryLine, Workspace } from "../../api/types.ts";
import { bytes, dateTime, duration, relative } from "../../lib/format.ts";
import { useNow } from "../../lib/hooks.ts";
import { counted, t } from "../../lib/language.ts";
import { asked, because, conditionWord } from "../../lib/phrases.ts";
import { segmentsOf, usualSeconds } from "../../lib/segments.ts";
import { isInSafeMode } from "../../state/verbs.ts";
import { Spinner } from "../../ui/parts.tsx";

export function Now({ workspace, history }: { workspace: Workspace; history: HistoryLine[] }) {
  const busy = workspace.operation !== "NONE";
  const now = useNow(busy ? 500 : 5_000);
  const adopted = workspace.conditions["storage.archive_adopted"];
  return (
    <section className="now" aria-label={t("now.title")}>
      {!busy && <p>{t(`explain.${workspace.deleted_at ? "trash" : workspace.phase}`)}</p>}
      {busy ? <Doing workspace={workspace} history={history} now={now} /> : <Waiting workspace={workspace} />}
      {workspace.error && workspace.phase !== "ERROR" && (
        <p className="now-trouble">
          {conditionWord({ status: false, reason: workspace.error.reason, message: workspace.error.message })}{" "}
          {workspace.error.retry_at && t("now.retry", { when: relative(workspace.error.retry_at, now) })}
        </p>
      )}
      {isInSafeMode(workspace) && <p>{t("safe_mode.text")}</p>}
      {adopted && <p>{conditionWord(adopted)}</p>}
      <Next workspace={workspace} now={now} />
    </section>
  );
}

function Doing({ workspace, history, now }: { workspace: Workspace; history: HistoryLine[]; now: number }) {
  const { operation, op_started_at, progress } = workspace;
  const passed = op_started_at ? Math.max(0, (now - Date.parse(op_started_at)) / 1000) : 0;
  const usual = usualSeconds(segmentsOf(history, now), operation);
  const left = usual === null ? null : usual - passed;
  const share = usual ? Math.min(0.95, passed / usual) : null;
  return (
    <div className="doing" role="status" aria-live="off">
      <p>
        <Spinner /> <strong>{t(`doing.${operation}`)}</strong>
        <span>{t("now.passed", { time: duration(Math.floor(passed)) })}</span>
        {left !== null && usual !== null && (
          <span>
            {left > 1
              ? t("now.left", { time: duration(Math.ceil(left)), usual: duration(usual) })
              : t("now.longer", { usual: duration(usual) })}
          </span>
        )}
      </p>
      {share === null ? (
        <progress aria-label={t(`doing.${operation}`)} />
      ) : (
        <progress value={share} aria-label={t(`doing.${operation}`)} />
      )}
      {progress && <p className="fine">{counted("now.moved", progress.files, { bytes: bytes(progress.bytes) })}</p>}
    </div>
  );
}

/** Asked for and not begun. */
function Waiting({ workspace }: { workspace: Workspace }) {
  const text = asked(workspace);
  if (!text) return null;
  return (
    <p className="doing">
      <Spinner /> <strong>{text}</strong>
    </p>
  );
}

function Next({ workspace, now }: { workspace: Workspace; now: number }) {
  const next = workspace.next_transition;
  if (workspace.deleted_at || workspace.operation !== "NONE") return null;
  if (!next) {
    const never = workspace.phase === "RUNNING" || workspace.phase === "STANDBY";
    const settled = workspace.desired_state === workspace.phase;
    return never && settled ? <p className="next">{t(`never.${workspace.phase as "RUNNING" | "STANDBY"}`)}</p> : null;
  }
  const due = Date.parse(next.at) < serverNow();
  return (
    <p className="next">
      {due
        ? t(next.to === "STANDBY" ? "next.stops_soon" : "next.archives_soon")
        : t(next.to === "STANDBY" ? "next.stops" : "next.archives", { when: relative(next.at, now) })}{" "}
      <span className="fine">
        {because(next.because)} · <time dateTime={next.at}>{dateTime(next.at)}</time>
      </span>
    </p>
  );
}
