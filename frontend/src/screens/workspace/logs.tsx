/** The newest lines that it has written, followed while they are looked at. */

import { useEffect, useRef, useState } from "react";
import { get } from "../../api/client.ts";
import type { Logs, Workspace } from "../../api/types.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Problem, Waiting } from "../../ui/parts.tsx";

const EVERY_MS = 3_000;

export function LogTail({ workspace }: { workspace: Workspace }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="panel" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <h2>{t("logs.title")}</h2>
      </summary>
      {open && (workspace.phase === "RUNNING" ? <Lines id={workspace.id} /> : <p>{t("logs.not_running")}</p>)}
    </details>
  );
}

function Lines({ id }: { id: string }) {
  const logs = useLoaded(() => get<Logs>(`/workspaces/${id}/logs`, { lines: 300 }), id, EVERY_MS);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const text = logs.data?.text;
  // biome-ignore lint/correctness/useExhaustiveDependencies: new text is what moves the end
  useEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  if (!logs.data) return logs.error ? <Problem error={logs.error} /> : <Waiting />;
  return (
    <>
      {logs.data.cut && <p className="fine">{t("logs.cut")}</p>}
      <pre
        ref={box}
        className="logs"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with keys
        tabIndex={0}
        role="log"
        aria-label={t("logs.title")}
        onScroll={(event) => {
          const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
          atEnd.current = scrollHeight - scrollTop - clientHeight < 40;
        }}
      >
        {text || t("logs.empty")}
      </pre>
      <Problem error={logs.error} />
    </>
  );
}
