/** Plots, drawn by hand: areas on top of each other, and lines. Each has its numbers in a table beside it. */

import type { ReactNode } from "react";
import { dateTime } from "../lib/format.ts";
import { language, t } from "../lib/language.ts";
import { piecesOf } from "../lib/pieces.ts";

export interface Series {
  name: string;
  /** A class that gives the colour: --series. */
  tone: string;
  /** null: it was not known then, and a line has a gap. */
  values: (number | null)[];
}

interface Props {
  title: string;
  /** Times of the points, in milliseconds, oldest first. */
  times: number[];
  series: Series[];
  stacked?: boolean;
  from: number;
  to: number;
  format: (value: number) => string;
  none: string;
  /** Nothing is between one and two of these: no half is told of one. */
  whole?: boolean;
}

const WIDTH = 600;
const HEIGHT = 150;
const LEFT = 52;
const TOP = 8;
const BOTTOM = 20;

export function Chart({ title, times, series, stacked = false, from, to, format, none, whole = false }: Props) {
  const tops = stacked ? sums(series) : series.map((each) => each.values);
  const highest = nice(Math.max(0, ...tops.flat().map((value) => value ?? 0)));
  const marks = whole && highest < 2 ? [0, 1] : [0, 0.5, 1];
  const x = (at: number): number => LEFT + ((at - from) / Math.max(1, to - from)) * (WIDTH - LEFT);
  const y = (value: number): number => TOP + (1 - value / highest) * (HEIGHT - TOP - BOTTOM);
  return (
    <figure className="chart">
      <figcaption>
        <strong>{title}</strong>
        {series.map((each) => (
          <span key={each.name} className={`legend ${each.tone}`}>
            {each.name}
          </span>
        ))}
      </figcaption>
      {times.length === 0 ? (
        <p className="fine">{none}</p>
      ) : (
        <>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={title}>
            {marks.map((share) => (
              <g key={share}>
                <line className="grid" x1={LEFT} x2={WIDTH} y1={y(highest * share)} y2={y(highest * share)} />
                <text x={LEFT - 6} y={y(highest * share) + 4} textAnchor="end">
                  {format(highest * share)}
                </text>
              </g>
            ))}
            {[0, 0.5, 1].map((share) => (
              <text key={share} x={LEFT + share * (WIDTH - LEFT)} y={HEIGHT - 4} textAnchor={anchor(share)}>
                {tick(from + share * (to - from), to - from)}
              </text>
            ))}
            {series.map((each, index) =>
              stacked ? (
                <path key={each.name} className={`area ${each.tone}`} d={area(times, tops, index, x, y, to - from)} />
              ) : (
                <Line key={each.name} tone={each.tone} times={times} values={each.values} x={x} y={y} />
              ),
            )}
          </svg>
          <Numbers times={times} series={series} format={format} />
        </>
      )}
    </figure>
  );
}

interface LineProps {
  tone: string;
  times: number[];
  values: (number | null)[];
  x: (at: number) => number;
  y: (value: number) => number;
}

function Line({ tone, times, values, x, y }: LineProps): ReactNode {
  const pieces = piecesOf(times, values).map((piece) => piece.map(([at, value]) => [x(at), y(value)] as const));
  return (
    <g className={tone}>
      {pieces.map((piece) => (
        <polyline key={piece[0]?.[0]} className="line" points={piece.map((each) => each.join(",")).join(" ")} />
      ))}
      {pieces.flat().map(([cx, cy]) => (
        <circle key={cx} cx={cx} cy={cy} r={2.5} />
      ))}
    </g>
  );
}

function Numbers({ times, series, format }: { times: number[]; series: Series[]; format: (value: number) => string }) {
  return (
    <details>
      <summary className="fine">{t("figures.table")}</summary>
      <div className="scroll keys">
        <table>
          <thead>
            <tr>
              <th>{t("figures.when")}</th>
              {series.map((each) => (
                <th key={each.name}>{each.name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {times.map((at, index) => (
              <tr key={at}>
                <td>{dateTime(new Date(at).toISOString())}</td>
                {series.map((each) => (
                  <td key={each.name}>{told(each.values[index], format)}</td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function told(value: number | null | undefined, format: (value: number) => string): string {
  return typeof value === "number" ? format(value) : "–";
}

/** The upper edge of each area: its own values on top of those before it. */
function sums(series: Series[]): number[][] {
  const edges: number[][] = [];
  for (const each of series) {
    const below = edges.at(-1);
    edges.push(each.values.map((value, index) => (value ?? 0) + (below?.[index] ?? 0)));
  }
  return edges;
}

function area(
  times: number[],
  tops: (number | null)[][],
  index: number,
  x: (at: number) => number,
  y: (value: number) => number,
  lasting: number,
): string {
  // A single point has no width: it is drawn as a narrow bar.
  const [only = 0] = times;
  const at = times.length === 1 ? [only - lasting / 100, only] : times;
  const value = (edge: (number | null)[] | undefined, place: number): number =>
    edge?.[Math.min(place, edge.length - 1)] ?? 0;
  const upper = at.map((time, place) => `${x(time)},${y(value(tops[index], place))}`);
  const lower = at.map((time, place) => `${x(time)},${y(index ? value(tops[index - 1], place) : 0)}`).reverse();
  return `M${[...upper, ...lower].join("L")}Z`;
}

/** A round number at or above. */
export function nice(value: number): number {
  if (value <= 0) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  const step = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((each) => each * size >= value) ?? 10;
  return Math.max(step * size, 1);
}

function anchor(share: number): "start" | "middle" | "end" {
  return share === 0 ? "start" : share === 1 ? "end" : "middle";
}

function tick(at: number, whole: number): string {
  const days = whole > 36 * 3_600_000;
  const how: Intl.DateTimeFormatOptions = days
    ? { month: "short", day: "numeric" }
    : { hour: "2-digit", minute: "2-digit" };
  return new Date(at).toLocaleString(language(), how);
}
