/** How the whole is: what it needs, what runs and may run, and how it was. */

import { get } from "../../api/client.ts";
import type { Limits } from "../../api/types.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Panel, Problem, Waiting } from "../../ui/parts.tsx";
import { Figures } from "./figures.tsx";
import { SystemHealth } from "./health.tsx";
import { SetLimits } from "./limits.tsx";

export function Overview() {
  return (
    <>
      <div className="columns even">
        <SystemHealth />
        <LimitsInUse />
      </div>
      <Figures />
    </>
  );
}

function LimitsInUse() {
  const found = useLoaded(() => get<Limits>("/admin/limits"), "limits", 5_000);
  return (
    <Panel title={t("limits.title")}>
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data && (
        <>
          <Meter label={t("limits.total")} value={found.data.total.running} limit={found.data.total.limit} />
          {found.data.users
            .filter((each) => each.running > 0)
            .map((each) => (
              <Meter key={each.user.id} label={each.user.username} value={each.running} limit={each.limit} />
            ))}
          <SetLimits limits={found.data} reload={found.reload} />
        </>
      )}
    </Panel>
  );
}

function Meter({ label, value, limit }: { label: string; value: number; limit: number }) {
  return (
    <div className="meter">
      <span>{label}</span>
      <meter aria-label={label} min={0} max={Math.max(1, limit)} high={limit * 0.9} value={value} />
      <span>{t("limits.of", { n: value, limit })}</span>
    </div>
  );
}
