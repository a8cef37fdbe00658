/** Every dependency, whether it works, and what to do about it. */

import { get } from "../../api/client.ts";
import type { Health } from "../../api/types.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { known, t } from "../../lib/language.ts";
import { Panel, Problem, Waiting } from "../../ui/parts.tsx";

export function SystemHealth() {
  const found = useLoaded(() => get<Health>("/admin/health"), "health", 5_000);
  return (
    <Panel
      title={t("health.title")}
      actions={found.data && <span className="fine">{t("health.version", { version: found.data.version })}</span>}
    >
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data && <Shown health={found.data} />}
    </Panel>
  );
}

function Shown({ health }: { health: Health }) {
  return (
    <>
      <p>{t(health.ready ? "health.all_up" : "health.some_down")}</p>
      <ul className="plain-list health">
        {health.dependencies.map((each) => {
          const state = each.state === "down" ? "down" : each.detail ? "warned" : "up";
          return (
            <li key={each.name} className={state}>
              <strong>{known("health", each.name) ?? each.name}</strong>
              <span>{t(`health.${state}`)}</span>
              {each.detail && <p className="fine">{each.detail}</p>}
            </li>
          );
        })}
      </ul>
      <details>
        <summary>{t("health.isolation")}</summary>
        {Object.entries(health.isolation).map(([backend, lines]) => (
          <div key={backend} className="isolation">
            <h3>{backend}</h3>
            <ul>
              {lines.map((line) => (
                <li key={line}>{line}</li>
              ))}
            </ul>
          </div>
        ))}
      </details>
    </>
  );
}
