/** Everybody's workspaces, and those that wait for a person. */

import { useDeferredValue, useState } from "react";
import { get } from "../../api/client.ts";
import type { Page, Phase, Workspace } from "../../api/types.ts";
import { relative } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { phaseWord } from "../../lib/phrases.ts";
import { Link, setQuery, useQuery } from "../../lib/router.tsx";
import { sortedBy, sortingOf } from "../../lib/sorting.ts";
import { Badge, Empty, Pager, Problem, Waiting } from "../../ui/parts.tsx";
import { Search } from "../../ui/search.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { Recovery } from "../workspace/recovery.tsx";

const PHASES: Phase[] = ["RUNNING", "STANDBY", "ARCHIVED", "PENDING", "ERROR"];
const EVERY_MS = 5_000;

const COLUMNS = ["name", "owner", "state", "image", "used"] as const;

export function Everybodys() {
  const query = useQuery();
  const phase = PHASES.find((each) => each === query.get("show")) ?? "";
  const sorting = sortingOf(query.get("sort"), COLUMNS, "-used");
  const [cursors, setCursors] = useState<string[]>([]);
  const q = useDeferredValue(query.get("q")?.trim() ?? "");
  const cursor = cursors.at(-1) ?? null;
  const sort = `${sorting.isDescending ? "-" : ""}${sorting.by}`;
  const found = useLoaded(
    () => get<Page<Workspace>>("/admin/workspaces", { q, phase, sort, cursor, limit: 50 }),
    `${q} ${phase} ${sort} ${cursor}`,
    EVERY_MS,
  );
  const next = found.data?.next_cursor;
  function narrow(change: Record<string, string>): void {
    setQuery(change);
    setCursors([]);
  }
  return (
    <>
      <div className="toolbar">
        <Search label={t("list.search")} onSearch={() => setCursors([])} />
        <label className="sort">
          <span className="hidden">{t("list.narrow")}</span>
          <select value={phase} onChange={(event) => narrow({ show: event.target.value })}>
            <option value="">{t("list.all")}</option>
            {PHASES.map((each) => (
              <option key={each} value={each}>
                {phaseWord(each)}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data && !found.data.items.length && <Empty title={t("list.none")} />}
      {found.data && found.data.items.length > 0 && (
        <Table
          columns={columns()}
          items={found.data.items}
          keyOf={(each) => each.id}
          sorting={sorting}
          onSort={(by) => narrow({ sort: sortedBy(by, sorting) })}
        />
      )}
      {(next || cursors.length > 0) && <Pager cursors={cursors} next={next} turn={setCursors} />}
    </>
  );
}

function columns(): Column<Workspace>[] {
  return [
    {
      name: "name",
      label: t("create.name"),
      isHeading: true,
      isSortable: true,
      cell: (each) => <Link href={`/workspaces/${each.id}`}>{each.name}</Link>,
    },
    { name: "owner", label: t("users.name"), isSortable: true, cell: (each) => each.owner.username },
    { name: "state", label: t("admin.state"), isSortable: true, cell: (each) => <Badge workspace={each} /> },
    {
      name: "image",
      label: t("create.image"),
      isSortable: true,
      cell: (each) => (
        <>
          {each.image_ref} <span className="fine">{each.backend}</span>
        </>
      ),
    },
    {
      name: "used",
      label: t("admin.used"),
      isSortable: true,
      cell: (each) => (each.last_access_at ? relative(each.last_access_at) : t("time.never")),
    },
  ];
}

/** What waits for a person, each with its ways out. */
export function Errors() {
  const found = useLoaded(
    () => get<Page<Workspace>>("/admin/workspaces", { phase: "ERROR", limit: 100 }),
    "errors",
    EVERY_MS,
  );
  if (!found.data) return found.error ? <Problem error={found.error} /> : <Waiting />;
  if (!found.data.items.length) return <Empty title={t("errors.none")} />;
  return (
    <>
      {found.data.items.map((each) => (
        <article key={each.id} className="error-item">
          <p>
            <Link href={`/workspaces/${each.id}`} className="row-name">
              {each.name}
            </Link>{" "}
            <span className="fine">{t("workspace.owner", { name: each.owner.username })}</span>
          </p>
          <Recovery isAdmin workspace={each} reload={found.reload} />
        </article>
      ))}
    </>
  );
}
