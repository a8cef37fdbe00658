/** Spans of time in one unit. */

/** In the largest unit of which, rounded, there is one: 23 h 40 min are a day. */
export function rounded(seconds: number): [number, Intl.RelativeTimeFormatUnit] {
  const steps: [number, number, Intl.RelativeTimeFormatUnit][] = [
    [1, 60, "second"],
    [60, 60, "minute"],
    [3600, 24, "hour"],
  ];
  for (const [size, most, unit] of steps) {
    const n = Math.round(seconds / size);
    if (Math.abs(n) < most) return [n, unit];
  }
  return [Math.round(seconds / 86400), "day"];
}
