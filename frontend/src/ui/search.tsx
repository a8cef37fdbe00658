/** The field that a list is searched with; what is typed is part of the address. */

import { setQuery, useQuery } from "../lib/router.tsx";
import { Icon } from "./icons.tsx";

export function Search({ label, onSearch }: { label: string; onSearch?: () => void }) {
  const text = useQuery().get("q") ?? "";
  return (
    <div className="search">
      <Icon name="search" />
      <input
        type="search"
        value={text}
        onChange={(event) => {
          setQuery({ q: event.target.value });
          onSearch?.();
        }}
        placeholder={label}
        aria-label={label}
      />
    </div>
  );
}
