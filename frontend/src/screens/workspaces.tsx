/** All of one's workspaces: live, searched, narrowed and sorted without asking the server. */

import { useCallback, useDeferredValue, useEffect, useMemo } from "react";
import { useTitle } from "../lib/hooks.ts";
import { language, t } from "../lib/language.ts";
import { phaseWord } from "../lib/phrases.ts";
import { Link, setQuery, useQuery } from "../lib/router.tsx";
import { listed, NARROWS, type Narrow, SORTS, viewOf } from "../state/listing.ts";
import { useLoaded } from "../state/live.ts";
import { select } from "../state/selection.ts";
import { store, useStoreVersion } from "../state/store.ts";
import { Icon } from "../ui/icons.tsx";
import { Empty, Waiting } from "../ui/parts.tsx";
import { Search } from "../ui/search.tsx";
import { useSame, VirtualList } from "../ui/virtual.tsx";
import { BulkBar } from "./bulk.tsx";
import { WorkspaceRow } from "./workspaceRow.tsx";

export function Workspaces() {
  useTitle(t("list.title"));
  const loaded = useLoaded();
  const version = useStoreVersion();
  const query = useQuery();
  const view = useMemo(() => viewOf(query), [query]);
  const wanted = useDeferredValue(view);
  const compare = useMemo(() => new Intl.Collator(language(), { numeric: true }), []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version stands for the store's content
  const found = useMemo(() => listed(store.values(), wanted, compare), [version, wanted, compare]);
  useEffect(() => () => select([]), []); // what is selected is seen
  const ids = useSame(found.ids);
  const row = useCallback((id: string) => <WorkspaceRow id={id} />, []);

  return (
    <main>
      <div className="page-head">
        <h1>{t("list.title")}</h1>
        {store.size > 0 && (
          <Link href="/workspaces/new" className="button primary">
            <Icon name="plus" />
            {t("list.new")}
          </Link>
        )}
      </div>
      {!loaded && store.size === 0 ? (
        <Waiting />
      ) : store.size === 0 ? (
        <First />
      ) : (
        <>
          <div className="toolbar">
            <Search label={t("list.search")} />
            <fieldset className="chips">
              <legend className="hidden">{t("list.narrow")}</legend>
              {NARROWS.map((each) => (
                <button
                  key={each}
                  type="button"
                  className="chip"
                  aria-pressed={view.narrow === each}
                  onClick={() => setQuery({ show: each === "all" ? "" : each })}
                >
                  {narrowWord(each)}
                  {loaded && <span className="count">{found.counts.get(each) ?? 0}</span>}
                </button>
              ))}
            </fieldset>
            <label className="sort">
              <span className="hidden">{t("list.sort")}</span>
              <select value={view.sort} onChange={(event) => setQuery({ sort: event.target.value })}>
                {SORTS.map((each) => (
                  <option key={each} value={each}>
                    {t(`sort.${each}`)}
                  </option>
                ))}
              </select>
            </label>
            {view.tag && (
              <button type="button" className="chip" aria-pressed onClick={() => setQuery({ tag: "" })}>
                {view.tag} <Icon name="close" />
                <span className="hidden">{t("list.any_tag")}</span>
              </button>
            )}
          </div>
          <BulkBar shown={ids} />
          {ids.length ? (
            <VirtualList ids={ids} label={t("list.title")} row={row} />
          ) : (
            <Empty title={t("list.none")}>
              <button type="button" className="button plain" onClick={() => setQuery({ q: "", show: "", tag: "" })}>
                {t("list.show_all")}
              </button>
            </Empty>
          )}
        </>
      )}
    </main>
  );
}

function narrowWord(narrow: Narrow): string {
  switch (narrow) {
    case "all":
    case "busy":
    case "favorite":
      return t(`list.${narrow}`);
    default:
      return phaseWord(narrow);
  }
}

/** For whoever has none yet: what a workspace is, and the way to the first. */
function First() {
  return (
    <Empty title={t("first.title")}>
      <p>{t("first.text")}</p>
      <ol className="steps">
        <li>{t("first.create")}</li>
        <li>{t("first.open")}</li>
        <li>{t("first.leave")}</li>
      </ol>
      <Link href="/workspaces/new" className="button primary big">
        <Icon name="plus" />
        {t("first.button")}
      </Link>
    </Empty>
  );
}
