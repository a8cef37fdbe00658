/** Who did what, newest first. */

import { useState } from "react";
import { get } from "../../api/client.ts";
import type { AuditLine, Page } from "../../api/types.ts";
import { dateTime } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { known, t } from "../../lib/language.ts";
import { Link } from "../../lib/router.tsx";
import { Pager, Problem, Waiting } from "../../ui/parts.tsx";

export function Audit() {
  const [cursors, setCursors] = useState<string[]>([]);
  const cursor = cursors.at(-1) ?? null;
  const found = useLoaded(
    () => get<Page<AuditLine>>("/admin/audit", { cursor, limit: 50 }),
    `audit ${cursor}`,
    cursor ? 0 : 5_000,
  );
  if (!found.data) return found.error ? <Problem error={found.error} /> : <Waiting />;
  const next = found.data.next_cursor;
  return (
    <>
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
            {found.data.items.map((each) => (
              <tr key={each.id}>
                <td>{dateTime(each.at)}</td>
                <td>{each.user?.username ?? t("audit.system")}</td>
                <td>
                  {known("audit", each.action) ?? each.action}{" "}
                  {each.workspace_id && <Link href={`/workspaces/${each.workspace_id}`}>{t("audit.workspace")}</Link>}
                  <span className="fine details">{detailsOf(each)}</span>
                </td>
                <td className="fine">{each.address}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <Pager cursors={cursors} next={next} turn={setCursors} />
    </>
  );
}

function detailsOf(line: AuditLine): string {
  const shown = Object.entries(line.details).filter(([, value]) => value !== null && value !== false);
  return shown
    .map(([name, value]) => `${name}: ${Array.isArray(value) ? value.join(", ") : String(value)}`)
    .join(" · ");
}
