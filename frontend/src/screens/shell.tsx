/** What stands around every screen: where one is, who one is, whether news arrive. */

import { type ReactNode, useEffect, useState } from "react";
import { post } from "../api/client.ts";
import type { Me } from "../api/types.ts";
import { forgetDrafts } from "../lib/draft.ts";
import { LANGUAGES, type Language, language, setLanguage, t } from "../lib/language.ts";
import { Link, usePath } from "../lib/router.tsx";
import { setTheme, type Theme, theme } from "../lib/theme.ts";
import { useConnection } from "../state/live.ts";
import { Icon } from "../ui/icons.tsx";
import { Button, Spinner } from "../ui/parts.tsx";
import { complain } from "../ui/toasts.tsx";

export function Brand() {
  return (
    <span className="brand">
      <svg viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" />
        <path d="M12.5 10 7 16l5.5 6M19.5 10 25 16l-5.5 6" />
      </svg>
      CodeHub
    </span>
  );
}

const THEMES: { theme: Theme; icon: "auto" | "sun" | "moon" }[] = [
  { theme: "auto", icon: "auto" },
  { theme: "light", icon: "sun" },
  { theme: "dark", icon: "moon" },
];

/** Language and light. */
export function Preferences() {
  const [chosen, choose] = useState(theme);
  const index = THEMES.findIndex((each) => each.theme === chosen);
  const now = THEMES[index] ?? { theme: "auto" as const, icon: "auto" as const };
  function next(): void {
    const wanted = THEMES[(index + 1) % THEMES.length]?.theme ?? "auto";
    setTheme(wanted);
    choose(wanted);
  }
  return (
    <div className="preferences">
      <label>
        <span className="hidden">{t("app.language")}</span>
        <select value={language()} onChange={(event) => setLanguage(event.target.value as Language)}>
          {Object.entries(LANGUAGES).map(([code, name]) => (
            <option key={code} value={code} lang={code}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <Button kind="quiet" icon={now.icon} onClick={next} title={t(`theme.${now.theme}`)}>
        <span className="hidden">
          {t("app.theme")}: {t(`theme.${now.theme}`)}
        </span>
      </Button>
    </div>
  );
}

export function Shell({ me, onLogout, children }: { me: Me; onLogout: () => void; children: ReactNode }) {
  const path = usePath();
  const places = [
    { href: "/", label: t("nav.workspaces"), here: path === "/" || path.startsWith("/workspaces") },
    { href: "/trash", label: t("nav.trash"), here: path === "/trash" },
    ...(me.role === "admin" ? [{ href: "/admin", label: t("nav.admin"), here: path.startsWith("/admin") }] : []),
  ];
  return (
    <>
      <a className="skip" href="#content">
        {t("app.skip")}
      </a>
      <header className="top">
        <Link href="/" className="home">
          <Brand />
        </Link>
        <nav aria-label={t("app.navigation")}>
          {places.map((each) => (
            <Link key={each.href} href={each.href} aria-current={each.here ? "page" : undefined}>
              {each.label}
            </Link>
          ))}
        </nav>
        <div className="who">
          <Preferences />
          <Link href="/account" className="account" aria-current={path === "/account" ? "page" : undefined}>
            <Icon name="user" />
            <span>{me.username}</span>
          </Link>
          <Logout onLogout={onLogout} />
        </div>
      </header>
      <ConnectionBanner />
      <div id="content">{children}</div>
    </>
  );
}

export function Logout({ onLogout }: { onLogout: () => void }) {
  const [busy, setBusy] = useState(false);
  async function logout(): Promise<void> {
    setBusy(true);
    try {
      await post("/logout");
      forgetDrafts();
      onLogout();
    } catch (error) {
      complain(error);
      setBusy(false);
    }
  }
  return (
    <Button kind="quiet" className="logout" busy={busy} onClick={() => void logout()}>
      {t("app.logout")}
    </Button>
  );
}

/** Says when news do not arrive, once that lasts; a blink is nobody's concern. */
function ConnectionBanner() {
  const connection = useConnection();
  const [late, setLate] = useState(false);
  useEffect(() => {
    if (connection !== "lost") {
      setLate(false);
      return;
    }
    const timer = setTimeout(() => setLate(true), 1_500);
    return () => clearTimeout(timer);
  }, [connection]);
  return (
    <div role="status" aria-live="polite">
      {late && (
        <div className="banner">
          <Spinner /> {t("app.lost")}
        </div>
      )}
    </div>
  );
}
