/** Where one is logged in, and logging out there. */

import { end, get, post } from "../../api/client.ts";
import type { OwnSession } from "../../api/types.ts";
import { relative } from "../../lib/format.ts";
import { useLoaded } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Button, Panel, Problem, Waiting } from "../../ui/parts.tsx";
import { complain } from "../../ui/toasts.tsx";

export function Sessions() {
  const found = useLoaded(() => get<{ items: OwnSession[] }>("/sessions"), "sessions");

  async function logOut(session: OwnSession): Promise<void> {
    try {
      await end(`/sessions/${session.id}`);
      await found.reload();
    } catch (error) {
      complain(error);
    }
  }
  async function everywhere(): Promise<void> {
    try {
      await post("/logout", undefined, { everywhere: true });
      location.assign("/login");
    } catch (error) {
      complain(error);
    }
  }

  return (
    <Panel
      title={t("sessions.title")}
      actions={
        <Button kind="quiet" onClick={() => void everywhere()}>
          {t("sessions.everywhere")}
        </Button>
      }
    >
      <Problem error={found.error} />
      {!found.data && !found.error && <Waiting />}
      <ul className="plain-list lines">
        {found.data?.items.map((each) => (
          <li key={each.id}>
            <div>
              <strong>{deviceOf(each.user_agent)}</strong>
              <p className="fine">
                {each.address} · {t("sessions.seen", { when: relative(each.last_seen_at) })}
              </p>
            </div>
            {each.current ? (
              <span className="fine">{t("sessions.this")}</span>
            ) : (
              <Button kind="quiet" onClick={() => void logOut(each)}>
                {t("app.logout")}
                <span className="hidden"> {deviceOf(each.user_agent)}</span>
              </Button>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}

const BROWSERS = ["Edg", "OPR", "Firefox", "Chrome", "Safari"];
const SYSTEMS = ["Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux"];

/** A browser and a system: enough to know one's own again. */
function deviceOf(agent: string | null): string {
  if (!agent) return t("sessions.unknown");
  const browser = BROWSERS.find((each) => agent.includes(each));
  const system = SYSTEMS.find((each) => agent.includes(each));
  const name = browser === "Edg" ? "Edge" : browser === "OPR" ? "Opera" : browser;
  return [name, system].filter(Boolean).join(" · ") || agent.slice(0, 60);
}
