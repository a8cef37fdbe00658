/** Times, durations and sizes in the page's language. */

import { serverNow } from "../api/client.ts";
import { language, t } from "./language.ts";
import { rounded } from "./rounded.ts";

/** Making a formatter costs more than a row of a list: each is made once for each language. */
function cached<T>(make: (language: string) => T): () => T {
  const made = new Map<string, T>();
  return () => {
    const here = language();
    const known = made.get(here) ?? make(here);
    made.set(here, known);
    return known;
  };
}

const relatives = cached((name) => new Intl.RelativeTimeFormat(name, { numeric: "always" }));
const dateTimes = cached((name) => new Intl.DateTimeFormat(name, { dateStyle: "medium", timeStyle: "short" }));
const clocks = cached((name) => new Intl.DateTimeFormat(name, { hour: "2-digit", minute: "2-digit" }));
const numbers = cached((name) => new Intl.NumberFormat(name));
const decimals = cached((name) => new Intl.NumberFormat(name, { maximumFractionDigits: 2 }));

/** The two largest units: "3 h 5 min", "42 s". */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (seconds < 10 && seconds > 0 && !Number.isInteger(seconds))
    return t("unit.s", { n: Math.max(0.1, seconds).toFixed(1) });
  const parts = [
    [Math.floor(whole / 86400), "unit.d"],
    [Math.floor(whole / 3600) % 24, "unit.h"],
    [Math.floor(whole / 60) % 60, "unit.min"],
    [whole % 60, "unit.s"],
  ] as const;
  const first = parts.findIndex(([n]) => n > 0);
  if (first < 0) return t("unit.s", { n: 0 });
  return parts
    .slice(first, first + 2)
    .filter(([n], index) => n > 0 || index === 0)
    .map(([n, unit]) => t(unit, { n }))
    .join(" ");
}

/** "in 5 min", "3 h ago", "just now". */
export function relative(iso: string, now = serverNow()): string {
  const seconds = (Date.parse(iso) - now) / 1000;
  if (Math.abs(seconds) < 5) return t("time.now");
  const [n, unit] = rounded(seconds);
  return relatives().format(n, unit);
}

export function dateTime(iso: string): string {
  return dateTimes().format(new Date(iso));
}

export function clock(at: number): string {
  return clocks().format(at);
}

export function bytes(n: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let size = n;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${units[unit]}`;
}

export function count(n: number): string {
  return numbers().format(n);
}

/** With two digits behind the point at the most. */
export function decimal(n: number): string {
  return decimals().format(n);
}
