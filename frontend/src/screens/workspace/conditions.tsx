/** What was observed of it, in plain words. */

import type { Workspace } from "../../api/types.ts";
import { dateTime, relative } from "../../lib/format.ts";
import { t } from "../../lib/language.ts";
import { conditionName, conditionWord } from "../../lib/phrases.ts";
import { Panel } from "../../ui/parts.tsx";

const ORDER = ["infra.container_ready", "storage.volume_ready", "storage.archive_ready", "policy.healthy"];

export function Conditions({ workspace, isAdmin }: { workspace: Workspace; isAdmin: boolean }) {
  const keys = [...new Set([...ORDER, ...Object.keys(workspace.conditions)])];
  return (
    <Panel title={t("conditions.title")}>
      <dl className="conditions">
        {keys.map((key) => {
          const condition = workspace.conditions[key];
          if (!condition) return null;
          return (
            <div key={key} className={condition.status ? "yes" : "no"}>
              <dt>{conditionName(key)}</dt>
              <dd>
                {conditionWord(condition)}
                {condition.last_transition_time && (
                  <time
                    className="fine"
                    dateTime={condition.last_transition_time}
                    title={dateTime(condition.last_transition_time)}
                  >
                    {t("conditions.since", { when: relative(condition.last_transition_time) })}
                  </time>
                )}
              </dd>
            </div>
          );
        })}
      </dl>
      {isAdmin && <Places workspace={workspace} />}
    </Panel>
  );
}

/** What an operator looks for in the engine and in the store. */
function Places({ workspace }: { workspace: Workspace }) {
  const places: [string, string | null][] = [
    [t("places.instance"), `ws-${workspace.id}`],
    [t("places.volume"), workspace.home_store_key],
    [t("places.archive"), workspace.archive_key],
    [t("places.operation"), workspace.op_id],
  ];
  return (
    <details>
      <summary>{t("places.title")}</summary>
      <dl className="conditions">
        {places.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <code>{value ?? "–"}</code>
            </dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
