/** What happened, as a picture and as a list: the strip shows when, the bars how long each step took. */

import { serverNow } from "../../api/client.ts";
import type { HistoryLine } from "../../api/types.ts";
import { clock, dateTime, duration } from "../../lib/format.ts";
import { useNow } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { causeWord, conditionWord, operationWord, phaseWord } from "../../lib/phrases.ts";
import { isToldAlone, type Segment, segmentsOf } from "../../lib/segments.ts";

const SHOWN = 30;

interface Props {
  lines: HistoryLine[] | null;
  more: boolean;
}

export function History({ lines, more }: Props) {
  const now = useNow(5_000);
  if (!lines) return null;
  if (!lines.length) return <p className="fine">{t("history.none")}</p>;
  const segments = segmentsOf(lines, Math.max(now, serverNow()));
  const newest = segments.filter(isWorthALine).slice(-SHOWN).reverse();
  const longest = Math.max(1, ...newest.filter(isStep).map(lasting));
  return (
    <>
      <Strip segments={segments} />
      <ol className="timeline">
        {newest.map((each) => (
          <li key={`${each.from}-${each.phase}-${each.operation}`} className={`phase-${each.phase.toLowerCase()}`}>
            <time dateTime={new Date(each.from).toISOString()}>{dateTime(new Date(each.from).toISOString())}</time>
            <div>
              <p>
                <strong>{wordOf(each)}</strong>
                {each.cause && <span className="fine"> {causeWord(each.cause)}</span>}
              </p>
              {each.error && (
                <p className="now-trouble">{conditionWord({ status: false, reason: each.error, message: "" })}</p>
              )}
              {isStep(each) && (
                <span className="bar" aria-hidden="true">
                  <span style={{ width: `${Math.max(1, (lasting(each) / longest) * 100)}%` }} />
                </span>
              )}
            </div>
            <span className="took">{duration(lasting(each) / 1000)}</span>
          </li>
        ))}
      </ol>
      {(more || segments.length > SHOWN) && <p className="fine">{t("history.older")}</p>}
    </>
  );
}

function Strip({ segments }: { segments: Segment[] }) {
  const first = segments[0]?.from ?? 0;
  const last = segments.at(-1)?.to ?? 1;
  const whole = Math.max(1, last - first);
  return (
    <figure className="strip">
      <svg viewBox="0 0 1000 28" preserveAspectRatio="none" role="img" aria-label={summary(segments)}>
        {segments.map((each) => (
          <rect
            key={each.from}
            className={`${isStep(each) ? "step" : ""} phase-${each.phase.toLowerCase()}`}
            x={((each.from - first) / whole) * 1000}
            width={Math.max(isStep(each) ? 2 : 0.5, (lasting(each) / whole) * 1000)}
            y={0}
            height={28}
          >
            <title>{`${wordOf(each)} · ${clock(each.from)} · ${duration(lasting(each) / 1000)}`}</title>
          </rect>
        ))}
      </svg>
      <figcaption>
        <time>{dateTime(new Date(first).toISOString())}</time>
        <span>{t("time.now")}</span>
      </figcaption>
    </figure>
  );
}

/** How long it was in each phase: what the picture shows, for those who do not see it. */
function summary(segments: Segment[]): string {
  const sums = new Map<string, number>();
  for (const each of segments) {
    const word = phaseWord(each.phase);
    sums.set(word, (sums.get(word) ?? 0) + lasting(each));
  }
  return [...sums].map(([word, ms]) => `${word} ${duration(ms / 1000)}`).join(", ");
}

function wordOf(each: Segment): string {
  return isStep(each) ? operationWord(each.operation) : phaseWord(each.phase);
}

/** Between two steps it rests for a moment, which nobody asks about. */
function isWorthALine(each: Segment): boolean {
  return isStep(each) || each.now || lasting(each) > 500 || isToldAlone(each.cause);
}

function isStep(each: Segment): boolean {
  return each.operation !== "NONE";
}

function lasting(each: Segment): number {
  return Math.max(0, each.to - each.from);
}
