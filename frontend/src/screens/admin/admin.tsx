/** Administration: one screen with its own few places. */

import { useTitle } from "../../lib/hooks.ts";
import { t } from "../../lib/language.ts";
import { Link } from "../../lib/router.tsx";
import { Empty } from "../../ui/parts.tsx";
import { Archives } from "./archives.tsx";
import { Audit } from "./audit.tsx";
import { Overview } from "./overview.tsx";
import { Users } from "./users.tsx";
import { Errors, Everybodys } from "./workspaces.tsx";

const PLACES = {
  "/admin": Overview,
  "/admin/workspaces": Everybodys,
  "/admin/errors": Errors,
  "/admin/users": Users,
  "/admin/archives": Archives,
  "/admin/audit": Audit,
} as const;

type Place = keyof typeof PLACES;

export default function Admin({ path }: { path: string }) {
  useTitle(t("nav.admin"));
  const here = path.replace(/\/$/, "");
  const Shown = here in PLACES ? PLACES[here as Place] : null;
  return (
    <main>
      <div className="page-head">
        <h1>{t("nav.admin")}</h1>
      </div>
      <nav className="tabs" aria-label={t("nav.admin")}>
        {(Object.keys(PLACES) as Place[]).map((each) => (
          <Link key={each} href={each} aria-current={each === here ? "page" : undefined}>
            {t(`admin.${each === "/admin" ? "overview" : (each.slice(7) as "users")}`)}
          </Link>
        ))}
      </nav>
      {Shown ? <Shown /> : <Empty title={t("app.nowhere")} />}
    </main>
  );
}
