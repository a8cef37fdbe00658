/**
 * A list of any length of which only what can be seen (and a little more) is in the page. Rows have one height, given
 * by the stylesheet: --row-height.
 */

import { memo, type ReactNode, useEffect, useLayoutEffect, useRef, useState } from "react";

const BEYOND = 8;

interface Props {
  ids: readonly string[];
  label: string;
  row: (id: string) => ReactNode;
}

export const VirtualList = memo(function VirtualList({ ids, label, row }: Props) {
  const list = useRef<HTMLUListElement>(null);
  const [range, setRange] = useState({ first: 0, last: 40, height: 64 });
  const count = ids.length;

  useLayoutEffect(() => {
    const shown = list.current;
    if (!shown) return;
    const measure = (): void => {
      const height = Number.parseFloat(getComputedStyle(shown).getPropertyValue("--row-height")) || 64;
      const above = -shown.getBoundingClientRect().top;
      const first = Math.max(0, Math.min(count - 1, Math.floor(above / height)) - BEYOND);
      const last = Math.min(count, Math.max(0, Math.ceil((above + innerHeight) / height)) + BEYOND);
      setRange((was) =>
        was.first === first && was.last === last && was.height === height ? was : { first, last, height },
      );
    };
    measure();
    addEventListener("scroll", measure, { passive: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure);
      removeEventListener("resize", measure);
    };
  }, [count]);

  const { first, last, height } = range;
  return (
    <ul
      ref={list}
      className="rows"
      aria-label={label}
      style={{ paddingTop: first * height, paddingBottom: Math.max(0, count - last) * height }}
    >
      {ids.slice(first, last).map((id) => (
        <li key={id}>{row(id)}</li>
      ))}
    </ul>
  );
});

/** The same value for as long as the new one has the same items. */
export function useSame(ids: readonly string[]): readonly string[] {
  const [kept, setKept] = useState(ids);
  const same = kept.length === ids.length && kept.every((id, index) => id === ids[index]);
  useEffect(() => {
    if (!same) setKept(ids);
  });
  return same ? kept : ids;
}
