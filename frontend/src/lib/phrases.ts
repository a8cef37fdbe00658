/** What the server says, in plain words of the page's language. What we have no words for is shown as it came. */

import { type ApiError, serverNow } from "../api/client.ts";
import type { Condition, Operation, Phase, Workspace } from "../api/types.ts";
import { adoptionOf, becauseOf } from "./because.ts";
import { dateTime, duration, relative } from "./format.ts";
import { counted, known, t } from "./language.ts";

export const PHASES: Phase[] = ["RUNNING", "STANDBY", "ARCHIVED", "PENDING", "ERROR", "DELETING", "DELETED"];

export function phaseWord(phase: Phase): string {
  return t(`phase.${phase}`);
}

/** The phase as a person would say it of this workspace: one that is deleted is in the trash. */
export function stateWord(workspace: Workspace): string {
  if (workspace.operation !== "NONE") return operationWord(workspace.operation);
  if (workspace.phase === "DELETING" && workspace.undelete_until) return t("phase.trashed");
  return phaseWord(workspace.phase);
}

export function operationWord(operation: Operation): string {
  return t(`operation.${operation}`);
}

/** Why something is left of one that cannot come back, and when it goes on. */
export function removalWord({ removal }: Workspace): string {
  if (!removal) return t("trash.never");
  const late = removal.at !== null && Date.parse(removal.at) < serverNow();
  if (removal.reason === "archive" && late) return t("removal.archive_late");
  if (removal.reason === "backend" && removal.at) return t("removal.backend_retry", { when: relative(removal.at) });
  return known("removal", removal.reason) ?? t("trash.never");
}

/** What was asked for and has not begun, or null. */
export function asked(workspace: Workspace): string | null {
  const { desired_state: desired, phase, operation } = workspace;
  if (operation !== "NONE" || phase === "ERROR" || workspace.deleted_at || desired === phase) return null;
  return t(`asked.${desired}`);
}

export function because(text: string): string {
  const found = becauseOf(text);
  return found ? t(`because.${found.since}`, { time: duration(found.seconds) }) : text;
}

/** Who or what asked for a change. */
export function causeWord(cause: string): string {
  const adopted = adoptionWord(cause);
  if (adopted) return adopted;
  const ttl = /^ttl: (.*)$/.exec(cause);
  if (ttl) return because(ttl[1] ?? "");
  const person = /^(user|token) (.*)$/.exec(cause);
  if (person) return person[1] === "user" ? (person[2] ?? "") : t("cause.token", { name: person[2] ?? "" });
  return known("cause", cause) ?? cause;
}

export function conditionName(key: string): string {
  return known("condition", key) ?? key;
}

export function conditionWord(condition: Condition): string {
  return (
    adoptionWord(condition.message ?? "") ??
    known("reason", condition.reason) ??
    (condition.message || condition.reason)
  );
}

function adoptionWord(text: string): string | null {
  const found = adoptionOf(text);
  if (!found) return null;
  return t("reason.RestoredFromArchive", { archive: dateTime(found.archive), database: dateTime(found.database) });
}

export interface Explained {
  text: string;
  /** The running workspaces that could be stopped instead (429). */
  running: { id: string; name: string }[];
}

/** An error with the way out of it. */
export function explain(error: ApiError): Explained {
  return { text: explanation(error), running: runningOf(error) };
}

function explanation(error: ApiError): string {
  const operation = String(error.details.operation ?? "NONE");
  if (error.code === "conflict" && operation !== "NONE" && known("operation", operation)) {
    return t("error.busy", { operation: operationWord(operation as Operation) });
  }
  if (error.code === "conflict" && error.details.desired_state === "DELETED") return t("error.going");
  if (error.code === "conflict" && error.details.phase === "ERROR") return t("error.in_error");
  if (error.code === "over_limit" && runningOf(error).length) {
    return counted("error.over_limit", runningOf(error).length);
  }
  if (error.code === "workspaces_need_confirmation") {
    return t("error.workspaces_need_confirmation", { names: namesOf(error) });
  }
  if (error.retryAfter && error.status === 429) {
    return t("error.too_often", { time: duration(error.retryAfter) });
  }
  return known("error", error.code) ?? (error.message || t("error.unknown", { code: error.code }));
}

const MOST_NAMES = 5;

function namesOf(error: ApiError): string {
  const found = error.details.workspaces;
  const names = Array.isArray(found) ? (found as { name: string }[]).map((one) => `"${one.name}"`) : [];
  return names.slice(0, MOST_NAMES).join(", ") + (names.length > MOST_NAMES ? ", …" : "");
}

function runningOf(error: ApiError): { id: string; name: string }[] {
  const running = error.details.running;
  return Array.isArray(running) ? (running as { id: string; name: string }[]) : [];
}
