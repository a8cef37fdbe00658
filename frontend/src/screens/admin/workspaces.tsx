/** Everybody's workspaces, and those that wait for a person. */

import { useDeferredValue, useState } from "react";
import { get } from "../../api/client.ts";
import type { Page, Phase, Workspace } from "../../api/types.ts";
import { relative } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { phaseWord } from "../../lib/phrases.ts";
import { Link } from "../../lib/router.tsx";
import { Icon } from "../../ui/icons.tsx";
import { Badge, Empty, Pager, Problem, Waiting } from "../../ui/parts.tsx";
import { Recovery } from "../workspace/recovery.tsx";

const PHASES: Phase[] = ["RUNNING", "STANDBY", "ARCHIVED", "PENDING", "ERROR"];
const EVERY_MS = 5_000;

export function Everybodys() {
  const [text, setText] = useState("");
  const [phase, setPhase] = useState<Phase | "">("");
  const [cursors, setCursors] = useState<string[]>([]);
  const q = useDeferredValue(text.trim());
  const cursor = cursors.at(-1) ?? null;
  const found = useLoaded(
    () => get<Page<Workspace>>("/admin/workspaces", { q, phase, cursor, limit: 50 }),
    `${q} ${phase} ${cursor}`,
    EVERY_MS,
  );
  const next = found.data?.next_cursor;
  return (
    <>
      <div className="toolbar">
        <div className="search">
          <Icon name="search" />
          <input
            type="search"
            value={text}
            onChange={(event) => {
              setText(event.target.value);
              setCursors([]);
            }}
            placeholder={t("list.search")}
            aria-label={t("list.search")}
          />
        </div>
        <label className="sort">
          <span className="hidden">{t("list.narrow")}</span>
          <select
            value={phase}
            onChange={(event) => {
              setPhase(event.target.value as Phase | "");
              setCursors([]);
            }}
          >
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
      {found.data && found.data.items.length > 0 && <Table items={found.data.items} />}
      {(next || cursors.length > 0) && <Pager cursors={cursors} next={next} turn={setCursors} />}
    </>
  );
}

function Table({ items }: { items: Workspace[] }) {
  return (
    <div className="scroll panel flush">
      <table>
        <thead>
          <tr>
            <th>{t("create.name")}</th>
            <th>{t("users.name")}</th>
            <th>{t("admin.state")}</th>
            <th>{t("create.image")}</th>
            <th>{t("admin.used")}</th>
          </tr>
        </thead>
        <tbody>
          {items.map((each) => (
            <tr key={each.id}>
              <th scope="row">
                <Link href={`/workspaces/${each.id}`}>{each.name}</Link>
              </th>
              <td>{each.owner.username}</td>
              <td>
                <Badge workspace={each} />
              </td>
              <td>
                {each.image_ref} <span className="fine">{each.backend}</span>
              </td>
              <td>{each.last_access_at ? relative(each.last_access_at) : t("time.never")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
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
