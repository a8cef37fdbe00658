/** One's own account: password, tokens, and where one is logged in. */

import type { Me } from "../api/types.ts";
import { useTitle } from "../lib/hooks.ts";
import { t } from "../lib/language.ts";
import { Password } from "./account/password.tsx";
import { Sessions } from "./account/sessions.tsx";
import { Tokens } from "./account/tokens.tsx";
import { Logout } from "./shell.tsx";

export default function Account({ me, onLogout }: { me: Me; onLogout: () => void }) {
  useTitle(t("account.title"));
  return (
    <main className="middle">
      <div className="page-head">
        <h1>{t("account.title")}</h1>
        <span className="fine">
          {me.username} · {t(`role.${me.role}`)}
        </span>
        <Logout onLogout={onLogout} />
      </div>
      <Password />
      <Tokens />
      <Sessions />
    </main>
  );
}
