/** Who did what, newest first; narrowed to a person, a kind or a time, and taken along as a table. */

import { useState } from "react";
import { get, urlOf } from "../../api/client.ts";
import type { AuditLine, Page, User } from "../../api/types.ts";
import { dateTime } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { known, t, wordsOf } from "../../lib/language.ts";
import { Link } from "../../lib/router.tsx";
import { Icon } from "../../ui/icons.tsx";
import { Pager, Problem, Waiting } from "../../ui/parts.tsx";
import { useUsers } from "./users.tsx";

const ACTIONS = wordsOf("audit").filter((name) => name.includes("."));

interface Narrowed {
  user: string;
  action: string;
  since: string;
  until: string;
}

const EVERYTHING: Narrowed = { user: "", action: "", since: "", until: "" };

export function Audit() {
  const [narrowed, setNarrowed] = useState(EVERYTHING);
  const [cursors, setCursors] = useState<string[]>([]);
  const cursor = cursors.at(-1) ?? null;
  const query = queryOf(narrowed);
  const found = useLoaded(
    () => get<Page<AuditLine>>("/admin/audit", { ...query, cursor, limit: 50 }),
    `audit ${cursor} ${JSON.stringify(query)}`,
    cursor ? 0 : 5_000,
  );
  function narrow(change: Partial<Narrowed>): void {
    setNarrowed({ ...narrowed, ...change });
    setCursors([]);
  }
  return (
    <>
      <Toolbar narrowed={narrowed} narrow={narrow} csv={urlOf("/admin/audit.csv", query)} />
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data && <Lines lines={found.data.items} />}
      {found.data && <Pager cursors={cursors} next={found.data.next_cursor} turn={setCursors} />}
    </>
  );
}

interface ToolbarProps {
  narrowed: Narrowed;
  narrow: (change: Partial<Narrowed>) => void;
  csv: string;
}

function Toolbar({ narrowed, narrow, csv }: ToolbarProps) {
  const users = useUsers();
  return (
    <div className="toolbar filters">
      <label>
        {t("audit.who")}
        <select value={narrowed.user} onChange={(event) => narrow({ user: event.target.value })}>
          <option value="">{t("audit.anybody")}</option>
          {users.data?.map((each: User) => (
            <option key={each.id} value={each.id}>
              {each.username}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t("audit.what")}
        <select value={narrowed.action} onChange={(event) => narrow({ action: event.target.value })}>
          <option value="">{t("audit.anything")}</option>
          {ACTIONS.map((each) => (
            <option key={each} value={each}>
              {known("audit", each)}
            </option>
          ))}
        </select>
      </label>
      <label>
        {t("audit.since")}
        <input type="date" value={narrowed.since} onChange={(event) => narrow({ since: event.target.value })} />
      </label>
      <label>
        {t("audit.until")}
        <input type="date" value={narrowed.until} onChange={(event) => narrow({ until: event.target.value })} />
      </label>
      <a className="button plain" href={csv} download>
        <Icon name="download" />
        {t("audit.csv")}
      </a>
    </div>
  );
}

function Lines({ lines }: { lines: AuditLine[] }) {
  return (
    <div className="scroll panel flush">
      <table>
        <thead>
          <tr>
            <th>{t("audit.when")}</th>
            <th>{t("audit.who")}</th>
            <th>{t("audit.what")}</th>
            <th>{t("audit.where")}</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((each) => (
            <tr key={each.id}>
              <td>{dateTime(each.at)}</td>
              <td>{each.user?.username ?? t("audit.system")}</td>
              <td>
                {known("audit", each.action) ?? each.action}{" "}
                {each.workspace_id && (
                  <Link href={`/workspaces/${each.workspace_id}`}>{each.workspace_name ?? t("audit.workspace")}</Link>
                )}
                <span className="fine details">{detailsOf(each)}</span>
              </td>
              <td className="fine">{each.address}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Days begin and end where the reader is; the last one belongs to it. */
function queryOf(narrowed: Narrowed): Record<string, string> {
  const since = narrowed.since && new Date(`${narrowed.since}T00:00`).toISOString();
  const last = narrowed.until ? new Date(`${narrowed.until}T00:00`) : null;
  last?.setDate(last.getDate() + 1);
  return { user: narrowed.user, action: narrowed.action, since, until: last?.toISOString() ?? "" };
}

function detailsOf(line: AuditLine): string {
  const shown = Object.entries(line.details).filter(([, value]) => value !== null && value !== false);
  return shown
    .map(([name, value]) => {
      const told = line.names[name] ?? (Array.isArray(value) ? value.join(", ") : String(value));
      return `${name}: ${told}`;
    })
    .join(" · ");
}
