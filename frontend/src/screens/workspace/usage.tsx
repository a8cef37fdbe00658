/** What a workspace uses, now and in the last day, how large its home and archive are, and the ports in use. */

import { get, serverNow } from "../../api/client.ts";
import type { Usage as Used, Workspace } from "../../api/types.ts";
import { bytes, dateTime, decimal } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Chart } from "../../ui/charts.tsx";
import { CopyButton } from "../../ui/copy.tsx";
import { Panel } from "../../ui/parts.tsx";

const EVERY_MS = 15_000;
const DAY_MS = 24 * 3_600_000;
const BREAK_MS = 15 * 60_000; // three points of the day: it did not run, or was not measured

export function Usage({ workspace }: { workspace: Workspace }) {
  const { id, phase, operation, archive_key } = workspace;
  const moment = `${id} ${phase} ${operation} ${archive_key}`;
  const { data } = useLoaded(() => get<Used>(`/workspaces/${id}/usage`), moment, phase === "ARCHIVED" ? 0 : EVERY_MS);
  const now = phase === "RUNNING" ? data?.now : null;
  if (!data || (!now && !data.home && data.archive_bytes === null)) return null;
  const { limits, ports } = data;
  return (
    <Panel title={t("usage.title")}>
      <dl className="meters">
        {now && (
          <>
            <Meter name={t("usage.cpus")} value={now.cpus} limit={limits.cpus} format={processors} />
            <Meter name={t("usage.memory")} value={now.memory_bytes} limit={limits.memory_bytes} format={bytes} />
          </>
        )}
        <Sizes usage={data} />
      </dl>
      {now && ports && ports.length > 0 && <Ports ports={ports} />}
      {now && data.day.length > 1 && <Day usage={data} />}
    </Panel>
  );
}

function Sizes({ usage: { home, archive_bytes } }: { usage: Used }) {
  return (
    <>
      {home && (
        <Meter
          name={t("usage.home")}
          value={home.bytes}
          limit={null}
          format={bytes}
          title={t("usage.measured", { when: dateTime(home.at) })}
        />
      )}
      {archive_bytes !== null && <Meter name={t("usage.archive")} value={archive_bytes} limit={null} format={bytes} />}
    </>
  );
}

interface MeterProps {
  name: string;
  value: number | null;
  limit: number | null;
  format: (value: number) => string;
  title?: string;
}

function Meter({ name, value, limit, format, title }: MeterProps) {
  const text = value === null ? t("usage.unknown") : limit ? `${format(value)} / ${format(limit)}` : format(value);
  return (
    <div title={title}>
      <dt>{name}</dt>
      <dd>
        <span>{text}</span>
        {value !== null && limit !== null && (
          <meter min={0} max={limit} high={limit * 0.9} value={value} aria-label={name} />
        )}
      </dd>
    </div>
  );
}

function Ports({ ports }: { ports: NonNullable<Used["ports"]> }) {
  return (
    <section className="ports" aria-label={t("usage.ports")}>
      <h3>{t("usage.ports")}</h3>
      <ul className="plain-list">
        {ports.map(({ port, url }) => (
          <li key={port}>
            <a href={url} target="_blank" rel="noreferrer">
              {port}
            </a>
            <CopyButton text={new URL(url, location.href).href} label={t("usage.copy", { port: String(port) })} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Between two points that are far apart nothing is known. */
function withBreaks(day: Used["day"]): Used["day"] {
  return day.flatMap((each, index) => {
    const before = day[index - 1];
    const missed = before && Date.parse(each.at) - Date.parse(before.at) > BREAK_MS;
    const middle = missed && (Date.parse(each.at) + Date.parse(before.at)) / 2;
    return middle ? [{ at: new Date(middle).toISOString(), cpus: null, memory_bytes: null }, each] : [each];
  });
}

function Day({ usage }: { usage: Used }) {
  const to = serverNow();
  const day = withBreaks(usage.day);
  const times = day.map((each) => Date.parse(each.at));
  const shared = { times, from: to - DAY_MS, to, none: "" };
  return (
    <details>
      <summary>{t("usage.day")}</summary>
      <Chart
        {...shared}
        title={t("usage.cpus")}
        series={[{ name: t("usage.cpus"), tone: "phase-running", values: day.map((each) => each.cpus) }]}
        format={processors}
      />
      <Chart
        {...shared}
        title={t("usage.memory")}
        series={[{ name: t("usage.memory"), tone: "phase-archived", values: day.map((each) => each.memory_bytes) }]}
        format={bytes}
      />
    </details>
  );
}

function processors(value: number): string {
  return decimal(value);
}
