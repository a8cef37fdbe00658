/** By which column a table is sorted, as its address says it: `name`, or `-name` for the other way round. */

export interface Sorting {
  by: string;
  isDescending: boolean;
}

export function sortingOf(text: string | null, columns: readonly string[], usual: string): Sorting {
  const given = text && columns.includes(text.replace(/^-/, "")) ? text : usual;
  return { by: given.replace(/^-/, ""), isDescending: given.startsWith("-") };
}

/** What the address says once a column was chosen: chosen again, it is turned round. */
export function sortedBy(column: string, now: Sorting): string {
  return now.by === column && !now.isDescending ? `-${column}` : column;
}

/** A copy in order; what has no value stands last, whichever way. */
export function sorted<T>(
  items: readonly T[],
  sorting: Sorting,
  fieldOf: (item: T, column: string) => string | number | null,
  compare: Intl.Collator,
): T[] {
  const sign = sorting.isDescending ? -1 : 1;
  return [...items].sort((one, other) => {
    const a = fieldOf(one, sorting.by);
    const b = fieldOf(other, sorting.by);
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * compare.compare(String(a), String(b));
  });
}
