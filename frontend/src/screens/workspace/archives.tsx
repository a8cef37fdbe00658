/** The archives that the store has of a workspace, each as a file to download. */

import { get } from "../../api/client.ts";
import type { Archives as Found, Workspace } from "../../api/types.ts";
import { bytes, dateTime } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Icon } from "../../ui/icons.tsx";
import { Panel, Problem } from "../../ui/parts.tsx";

const ON_DISK = ["STANDBY", "RUNNING"];

export function Archives({ workspace }: { workspace: Workspace }) {
  const { id, archive_key, operation, phase } = workspace;
  const { data, error } = useLoaded(
    () => get<Found>(`/workspaces/${id}/archives`),
    `${id} ${archive_key} ${operation}`,
  );
  if (!error && !data?.items.length) return null;
  return (
    <Panel title={t("archives.title")}>
      <Problem error={error} />
      {ON_DISK.includes(phase) && <p className="fine">{t("archives.on_disk")}</p>}
      <ul className="archives">
        {data?.items.map((each) => (
          <li key={each.op_id}>
            <span>
              <time dateTime={each.at}>{dateTime(each.at)}</time> <span className="fine">{bytes(each.bytes)}</span>
            </span>
            <a
              className="button plain"
              href={`/api/v1/workspaces/${id}/archive?op_id=${each.op_id}`}
              aria-label={t("archives.download_of", { when: dateTime(each.at) })}
              download
            >
              <Icon name="download" />
              {t("archives.download")}
            </a>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
