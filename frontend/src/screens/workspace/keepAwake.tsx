/** Keeping a running workspace from being stopped for being idle, for some hours. */

import { useState } from "react";
import { serverNow } from "../../api/client.ts";
import type { Workspace } from "../../api/types.ts";
import { dateTime, duration } from "../../lib/format.ts";
import { t } from "../../lib/language.ts";
import { keepAwake } from "../../state/verbs.ts";
import { type Choice, Menu } from "../../ui/menu.tsx";
import { complain, say } from "../../ui/toasts.tsx";

const HOURS = [1, 4, 8, 24];

export function KeepAwake({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  const until = workspace.keep_awake_until;
  const awake = until !== null && Date.parse(until) > serverNow();
  async function keep(hours: number): Promise<void> {
    setBusy(true);
    try {
      const after = await keepAwake(workspace.id, hours);
      await reload();
      const to = after.keep_awake_until;
      say(hours && to ? t("awake.set", { when: dateTime(to) }) : t("awake.ended"));
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  }
  const choices: Choice[] = HOURS.map((hours) => ({
    key: String(hours),
    label: t("awake.for", { time: duration(hours * 3600) }),
    onChoose: () => void keep(hours),
  }));
  if (awake) choices.push({ key: "end", label: t("awake.end"), onChoose: () => void keep(0) });
  const label = awake ? t("awake.is", { time: duration((Date.parse(until) - serverNow()) / 1000) }) : t("awake.label");
  return <Menu label={label} icon="clock" busy={busy} choices={choices} />;
}
