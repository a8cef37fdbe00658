/** Every dependency and what the doctor finds: whether it is well, what to do about it, and the runbook's entry. */

import runbook from "../../../../docs/runbook.md?raw";
import { get } from "../../api/client.ts";
import type { Health } from "../../api/types.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { known, t } from "../../lib/language.ts";
import { Markdown } from "../../lib/markdown.tsx";
import { entryOf } from "../../lib/runbook.ts";
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

type State = "up" | "warned" | "down";

const STATES: Record<"ok" | "warning" | "failed", State> = { ok: "up", warning: "warned", failed: "down" };

function Shown({ health }: { health: Health }) {
  return (
    <>
      <p>{t(health.ready ? "health.all_up" : "health.some_down")}</p>
      <ul className="plain-list health">
        {health.dependencies.map((each) => {
          const state = each.state === "down" ? "down" : each.detail ? "warned" : "up";
          const code = each.code ?? null;
          const words = t(`health.${state}`);
          return <Line key={each.name} name={each.name} state={state} words={words} told={[each.detail]} code={code} />;
        })}
      </ul>
      <h3>{t("health.findings")}</h3>
      <ul className="plain-list health findings">
        {health.findings.map((each) => {
          const told = each.code ? [each.detail, each.advice] : [];
          const key = `${each.check} ${each.detail}`;
          const state = STATES[each.state];
          const words = t(state === "warned" ? "health.noticed" : `health.${state}`);
          return <Line key={key} name={each.check} state={state} words={words} told={told} code={each.code} />;
        })}
      </ul>
      <details>
        <summary>{t("health.isolation")}</summary>
        {Object.entries(health.isolation).map(([backend, lines]) => (
          <div key={backend} className="isolation">
            <h3>{backend}</h3>
            <ul lang="en">
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

interface LineProps {
  name: string;
  state: State;
  words: string;
  told: string[];
  code: string | null;
}

/** One line; below it what is wrong and, for those who want to know more, what the runbook says. */
function Line({ name, state, words, told, code }: LineProps) {
  const entry = code && entryOf(runbook, code);
  return (
    <li className={state}>
      <strong>{known("health", name) ?? name}</strong>
      <span>{words}</span>
      {told.filter(Boolean).map((line) => (
        <p key={line} className="fine" lang="en">
          {line}
        </p>
      ))}
      {entry && (
        <details>
          <summary>{t("health.runbook", { code })}</summary>
          <div lang="en">
            <Markdown text={entry} />
          </div>
        </details>
      )}
    </li>
  );
}
