/** What the server kept of the past, plotted. */

import { useState } from "react";
import { get, serverNow } from "../../api/client.ts";
import type { DurationsPoint, Figures as Shown } from "../../api/types.ts";
import { bytes, count } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { counted, t } from "../../lib/language.ts";
import { phaseWord } from "../../lib/phrases.ts";
import { Chart } from "../../ui/charts.tsx";
import { Panel, Problem, Waiting } from "../../ui/parts.tsx";

const PERIODS = [24, 24 * 7, 24 * 30];

export function Figures() {
  const [hours, setHours] = useState(24);
  const found = useLoaded(() => get<Shown>("/admin/figures", { hours }), `figures ${hours}`, 60_000);
  return (
    <Panel
      title={t("figures.title")}
      actions={
        <label>
          <span className="hidden">{t("figures.period")}</span>
          <select value={hours} onChange={(event) => setHours(Number(event.target.value))}>
            {PERIODS.map((each) => (
              <option key={each} value={each}>
                {each > 24 ? counted("figures.days", each / 24) : counted("figures.hours", each)}
              </option>
            ))}
          </select>
        </label>
      }
    >
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      {found.data && <Charts figures={found.data} />}
    </Panel>
  );
}

function Charts({ figures }: { figures: Shown }) {
  const to = serverNow();
  const from = to - figures.hours * 3_600_000;
  const period = { from, to, none: t("figures.none") };
  const times = (points: { at: string }[]): number[] => points.map((each) => Math.max(from, Date.parse(each.at)));
  return (
    <div className="charts">
      <Chart
        {...period}
        title={t("figures.workspaces")}
        stacked
        whole
        times={times(figures.phases)}
        series={[
          { name: phaseWord("RUNNING"), tone: "phase-running", values: figures.phases.map((each) => each.running) },
          { name: phaseWord("STANDBY"), tone: "phase-standby", values: figures.phases.map((each) => each.standby) },
          { name: phaseWord("ARCHIVED"), tone: "phase-archived", values: figures.phases.map((each) => each.archived) },
          { name: phaseWord("ERROR"), tone: "phase-error", values: figures.phases.map((each) => each.error) },
        ]}
        format={(value) => count(Math.round(value * 10) / 10)}
      />
      <Chart
        {...period}
        whole
        title={t("figures.archives")}
        none={t("figures.archives_none")}
        times={times(figures.archives)}
        series={[{ name: t("gc.bytes"), tone: "phase-archived", values: figures.archives.map((each) => each.bytes) }]}
        format={bytes}
      />
      <Durations {...period} title={t("figures.starts")} points={figures.starts} times={times(figures.starts)} />
      <Durations {...period} title={t("figures.restores")} points={figures.restores} times={times(figures.restores)} />
    </div>
  );
}

interface DurationsProps {
  title: string;
  points: DurationsPoint[];
  times: number[];
  from: number;
  to: number;
  none: string;
}

function Durations({ points, ...rest }: DurationsProps) {
  return (
    <Chart
      {...rest}
      series={[
        { name: t("figures.p50"), tone: "phase-running", values: points.map((each) => each.p50_ms / 1000) },
        { name: t("figures.p95"), tone: "phase-standby", values: points.map((each) => each.p95_ms / 1000) },
      ]}
      format={(value) => value.toFixed(value < 10 ? 1 : 0)}
    />
  );
}
