/** A table whose columns can be sorted by; on a phone each row is a card, and each cell tells its column's name. */

import type { ReactNode } from "react";
import type { Sorting } from "../lib/sorting.ts";

export interface Column<T> {
  name: string;
  label: string;
  cell: (item: T) => ReactNode;
  /** It names the row. */
  isHeading?: true;
  isSortable?: true;
}

interface Props<T> {
  columns: Column<T>[];
  items: readonly T[];
  keyOf: (item: T) => string | number;
  isOff?: (item: T) => boolean;
  sorting?: Sorting;
  onSort?: (by: string) => void;
}

export function Table<T>({ columns, items, keyOf, isOff, sorting, onSort }: Props<T>) {
  return (
    <div className="scroll panel flush">
      <table className="stacks">
        <thead>
          <tr>
            {columns.map((column) => (
              <Heading key={column.name} column={column} sorting={sorting} onSort={onSort} />
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={keyOf(item)} className={isOff?.(item) ? "off" : ""}>
              {columns.map(({ name, label, cell, isHeading }) =>
                isHeading ? (
                  <th key={name} scope="row" data-label={label}>
                    {cell(item)}
                  </th>
                ) : (
                  <td key={name} data-label={label}>
                    {cell(item)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface HeadingProps<T> {
  column: Column<T>;
  sorting: Sorting | undefined;
  onSort: ((by: string) => void) | undefined;
}

function Heading<T>({ column, sorting, onSort }: HeadingProps<T>) {
  const { name, label, isSortable } = column;
  if (!label) return <td />;
  if (!isSortable || !onSort) return <th scope="col">{label}</th>;
  const order = sorting?.by === name ? (sorting.isDescending ? "descending" : "ascending") : undefined;
  return (
    <th scope="col" aria-sort={order}>
      <button type="button" className="sorter" onClick={() => onSort(name)}>
        {label}
        <span aria-hidden="true">{order === "ascending" ? "↑" : order === "descending" ? "↓" : "↕"}</span>
      </button>
    </th>
  );
}
