/** The newest lines that it has written, followed while they are looked at; of one that has ended, the last ones. */

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
      {open && <Lines key={workspace.phase} id={workspace.id} isLive={workspace.phase === "RUNNING"} />}
    </details>
  );
}

function Lines({ id, isLive }: { id: string; isLive: boolean }) {
  const every = isLive ? EVERY_MS : undefined;
  const logs = useLoaded(() => get<Logs>(`/workspaces/${id}/logs`, { lines: 300 }), id, every);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const text = logs.data?.text;
  // biome-ignore lint/correctness/useExhaustiveDependencies: new text is what moves the end
  useEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  if (logs.error?.code === "not_running") return <p>{t("logs.not_running")}</p>;
  if (!logs.data) return logs.error ? <Problem error={logs.error} /> : <Waiting />;
  return (
    <>
      {!isLive && <p className="fine">{t("logs.last")}</p>}
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
