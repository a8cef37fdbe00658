/** Keeping a running workspace from being stopped for being idle, for some hours. */

import { useState } from "react";
import { serverNow } from "../../api/client.ts";
import type { Workspace } from "../../api/types.ts";
import { duration } from "../../lib/format.ts";
import { t } from "../../lib/language.ts";
import { keepAwake } from "../../state/verbs.ts";
import { complain } from "../../ui/toasts.tsx";

const HOURS = [1, 4, 8, 24];

export function KeepAwake({ workspace, reload }: { workspace: Workspace; reload: () => Promise<void> }) {
  const [busy, setBusy] = useState(false);
  const until = workspace.keep_awake_until;
  const awake = until !== null && Date.parse(until) > serverNow();
  async function keep(hours: number): Promise<void> {
    setBusy(true);
    try {
      await keepAwake(workspace.id, hours);
      await reload();
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  }
  return (
    <select
      className="button plain"
      aria-label={t("awake.label")}
      disabled={busy}
      value=""
      onChange={(event) => void keep(Number(event.target.value))}
    >
      <option value="" hidden>
        {awake ? t("awake.is", { time: duration((Date.parse(until) - serverNow()) / 1000) }) : t("awake.label")}
      </option>
      {HOURS.map((hours) => (
        <option key={hours} value={hours}>
          {t("awake.for", { time: duration(hours * 3600) })}
        </option>
      ))}
      {awake && <option value={0}>{t("awake.end")}</option>}
    </select>
  );
}
