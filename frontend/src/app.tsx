/** Which screen a path is, and who is logged in. */

import { Suspense, useCallback, useEffect, useState } from "react";
import { ApiError, get, loggedOut } from "./api/client.ts";
import type { Me, Session } from "./api/types.ts";
import { forgetDrafts } from "./lib/draft.ts";
import { t, useLanguage } from "./lib/language.ts";
import { Link, navigate, usePath } from "./lib/router.tsx";
import { CreateWorkspace } from "./screens/create.tsx";
import { Login } from "./screens/login.tsx";
import { Shell } from "./screens/shell.tsx";
import { WorkspaceScreen } from "./screens/workspace.tsx";
import { Workspaces } from "./screens/workspaces.tsx";
import { live } from "./state/live.ts";
import { store } from "./state/store.ts";
import { Boundary, part } from "./ui/boundary.tsx";
import { Button, Empty, Problem, Waiting } from "./ui/parts.tsx";
import { ProofAsked } from "./ui/proof.tsx";
import { Toasts } from "./ui/toasts.tsx";

// What is not needed for the first look comes when it is asked for.
const Trash = part(() => import("./screens/trash.tsx"));
const Account = part(() => import("./screens/account.tsx"));
const Admin = part(() => import("./screens/admin/admin.tsx"));

export function App() {
  const language = useLanguage();
  return (
    <div key={language}>
      <Boundary place={language}>
        <Gate />
        <ProofAsked />
        <Toasts />
      </Boundary>
    </div>
  );
}

type Who = { me: Me } | "asking" | "nobody" | ApiError;

function Gate() {
  const path = usePath();
  const [who, setWho] = useState<Who>("asking");

  const ask = useCallback(async () => {
    try {
      const session = await get<Session>("/session");
      setWho({ me: session.user });
      live.start();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setWho(error.status === 401 ? "nobody" : error);
    }
  }, []);

  useEffect(() => {
    void ask();
    const end = (): void => {
      live.stop();
      forgetDrafts();
      store.keepOnly(new Set()); // the next to log in may be somebody else
      setWho("nobody");
    };
    loggedOut.addEventListener("ended", end);
    return () => {
      loggedOut.removeEventListener("ended", end);
      live.stop();
    };
  }, [ask]);

  const away = who === "nobody" && path !== "/login";
  const inside = typeof who === "object" && "me" in who;
  useEffect(() => {
    const here = location.pathname + location.search;
    if (away) navigate(here === "/" ? "/login" : `/login?next=${encodeURIComponent(here)}`, { replace: true });
    else if (inside && path === "/login") navigate("/", { replace: true });
  }, [away, inside, path]);

  if (who === "asking") return <Waiting />;
  if (who === "nobody") return <Login onLogin={ask} />;
  if (who instanceof ApiError) {
    return (
      <main className="narrow">
        <Problem error={who}>
          <Button onClick={() => void ask()}>{t("app.again")}</Button>
        </Problem>
      </main>
    );
  }
  // A page that was loaded anew holds nothing of whoever was here before.
  const leave = (): void => location.assign("/login");
  return (
    <Shell me={who.me} onLogout={leave}>
      <Boundary place={path}>
        <Suspense fallback={<Waiting />}>
          <Screen path={path} me={who.me} onLogout={leave} />
        </Suspense>
      </Boundary>
    </Shell>
  );
}

function Screen({ path, me, onLogout }: { path: string; me: Me; onLogout: () => void }) {
  if (path === "/" || path === "/login") return <Workspaces />;
  if (path === "/workspaces/new") return <CreateWorkspace />;
  const one = /^\/workspaces\/([0-9a-f-]{36})$/.exec(path);
  if (one?.[1]) return <WorkspaceScreen key={one[1]} id={one[1]} me={me} />;
  if (path === "/trash") return <Trash />;
  if (path === "/account") return <Account me={me} onLogout={onLogout} />;
  if (path.startsWith("/admin") && me.role === "admin") return <Admin path={path} />;
  return (
    <main>
      <Empty title={t("app.nowhere")}>
        <p>{t("app.nowhere_text", { path })}</p>
        <Link href="/" className="button primary">
          {t("nav.workspaces")}
        </Link>
      </Empty>
    </main>
  );
}
