/** The way into a workspace. One that is archived, or was never started, is asked to start first: to open it is to ask. */

import { type MouseEvent, type ReactNode, useState } from "react";
import type { Workspace } from "../../api/types.ts";
import { want } from "../../state/verbs.ts";
import { Icon } from "../../ui/icons.tsx";
import { Spinner } from "../../ui/parts.tsx";
import { complain } from "../../ui/toasts.tsx";

export function OpenLink({ workspace, className, children }: Props) {
  const [busy, setBusy] = useState(false);
  const { id, name, url } = workspace;
  const asks = workspace.phase === "ARCHIVED" || workspace.phase === "PENDING";

  async function open(): Promise<void> {
    setBusy(true);
    const start = async (): Promise<void> => {
      if (workspace.desired_state !== "RUNNING") await want(id, "RUNNING");
      location.assign(url);
    };
    try {
      await start();
    } catch (error) {
      complain(error, { name, again: start });
    } finally {
      setBusy(false);
    }
  }

  function follow(event: MouseEvent): void {
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!asks || !plain) return; // another tab shows the page that asks
    event.preventDefault();
    if (!busy) void open();
  }

  return (
    <a className={className} href={url} onClick={follow} aria-busy={busy || undefined}>
      {busy ? <Spinner /> : <Icon name="open" />}
      {children}
    </a>
  );
}

interface Props {
  workspace: Workspace;
  className: string;
  children: ReactNode;
}
