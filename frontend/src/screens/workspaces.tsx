/** All of one's workspaces: live, searched, narrowed and sorted without asking the server. */

import { useCallback, useDeferredValue, useMemo, useState } from "react";
import { useTitle } from "../lib/hooks.ts";
import { language, t } from "../lib/language.ts";
import { phaseWord } from "../lib/phrases.ts";
import { Link } from "../lib/router.tsx";
import { listed, type Narrow, SORTS, type Sort } from "../state/listing.ts";
import { useLoaded } from "../state/live.ts";
import { store, useStoreVersion } from "../state/store.ts";
import { Icon } from "../ui/icons.tsx";
import { Empty, Waiting } from "../ui/parts.tsx";
import { useSame, VirtualList } from "../ui/virtual.tsx";
import { WorkspaceRow } from "./workspaceRow.tsx";

const NARROWS: Narrow[] = ["all", "RUNNING", "STANDBY", "ARCHIVED", "busy", "ERROR"];

export function Workspaces() {
  useTitle(t("list.title"));
  const loaded = useLoaded();
  const version = useStoreVersion();
  const [text, setText] = useState("");
  const [narrow, setNarrow] = useState<Narrow>("all");
  const [sort, setSort] = useState<Sort>("recent");
  const wanted = useDeferredValue(text);
  const compare = useMemo(() => new Intl.Collator(language(), { numeric: true }), []);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version stands for the store's content
  const found = useMemo(
    () => listed(store.values(), { text: wanted, narrow, sort }, compare),
    [version, wanted, narrow, sort, compare],
  );
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
            <div className="search">
              <Icon name="search" />
              <input
                type="search"
                value={text}
                onChange={(event) => setText(event.target.value)}
                placeholder={t("list.search")}
                aria-label={t("list.search")}
              />
            </div>
            <fieldset className="chips">
              <legend className="hidden">{t("list.narrow")}</legend>
              {NARROWS.map((each) => (
                <button
                  key={each}
                  type="button"
                  className="chip"
                  aria-pressed={narrow === each}
                  onClick={() => setNarrow(each)}
                >
                  {each === "all" ? t("list.all") : each === "busy" ? t("list.busy") : phaseWord(each)}
                  {loaded && <span className="count">{found.counts.get(each) ?? 0}</span>}
                </button>
              ))}
            </fieldset>
            <label className="sort">
              <span className="hidden">{t("list.sort")}</span>
              <select value={sort} onChange={(event) => setSort(event.target.value as Sort)}>
                {SORTS.map((each) => (
                  <option key={each} value={each}>
                    {t(`sort.${each}`)}
                  </option>
                ))}
              </select>
            </label>
          </div>
          {ids.length ? (
            <VirtualList ids={ids} label={t("list.title")} row={row} />
          ) : (
            <Empty title={t("list.none")}>
              <button
                type="button"
                className="button plain"
                onClick={() => {
                  setText("");
                  setNarrow("all");
                }}
              >
                {t("list.show_all")}
              </button>
            </Empty>
          )}
        </>
      )}
    </main>
  );
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
