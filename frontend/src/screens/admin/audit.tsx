/** Who did what, newest first; narrowed to a person, a kind or a time, and taken along as a table. */

import { useState } from "react";
import { get, urlOf } from "../../api/client.ts";
import type { AuditLine, Page, User } from "../../api/types.ts";
import { dateTime } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { known, t, wordsOf } from "../../lib/language.ts";
import { Link, setQuery, useQuery } from "../../lib/router.tsx";
import { sortedBy, sortingOf } from "../../lib/sorting.ts";
import { Icon } from "../../ui/icons.tsx";
import { Pager, Problem, Waiting } from "../../ui/parts.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { useUsers } from "./users.tsx";

const ACTIONS = wordsOf("audit").filter((name) => name.includes("."));

const FILTERS = ["user", "action", "since", "until"] as const;
type Narrowed = Record<(typeof FILTERS)[number], string>;

export function Audit() {
  const asked = useQuery();
  const narrowed = Object.fromEntries(FILTERS.map((name) => [name, asked.get(name) ?? ""])) as Narrowed;
  const sorting = sortingOf(asked.get("sort"), ["when"], "-when");
  const [cursors, setCursors] = useState<string[]>([]);
  const cursor = cursors.at(-1) ?? null;
  const query = queryOf(narrowed);
  const order = sorting.isDescending ? "newest" : "oldest";
  const found = useLoaded(
    () => get<Page<AuditLine>>("/admin/audit", { ...query, order, cursor, limit: 50 }),
    `audit ${cursor} ${order} ${JSON.stringify(query)}`,
    cursor ? 0 : 5_000,
  );
  function narrow(change: Record<string, string>): void {
    setQuery(change);
    setCursors([]);
  }
  return (
    <>
      <Toolbar narrowed={narrowed} narrow={narrow} csv={urlOf("/admin/audit.csv", query)} />
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data && (
        <Table
          columns={columns()}
          items={found.data.items}
          keyOf={(each) => each.id}
          sorting={sorting}
          onSort={(by) => narrow({ sort: sortedBy(by, sorting) })}
        />
      )}
      {found.data && <Pager cursors={cursors} next={found.data.next_cursor} turn={setCursors} />}
    </>
  );
}

interface ToolbarProps {
  narrowed: Narrowed;
  narrow: (change: Record<string, string>) => void;
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

function columns(): Column<AuditLine>[] {
  return [
    { name: "when", label: t("audit.when"), isSortable: true, cell: (each) => dateTime(each.at) },
    { name: "who", label: t("audit.who"), cell: (each) => each.user?.username ?? t("audit.system") },
    {
      name: "what",
      label: t("audit.what"),
      cell: (each) => (
        <>
          {known("audit", each.action) ?? each.action}{" "}
          {each.workspace_id && (
            <Link href={`/workspaces/${each.workspace_id}`}>{each.workspace_name ?? t("audit.workspace")}</Link>
          )}
          <span className="fine details">{detailsOf(each)}</span>
        </>
      ),
    },
    { name: "where", label: t("audit.where"), cell: (each) => <span className="fine">{each.address}</span> },
  ];
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
