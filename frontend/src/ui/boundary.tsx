/**
 * What is shown when a screen breaks: words and a way on, never a white page. A part of the page that is missing on the
 * server (a tab that was open during an upgrade) loads the page anew, once, and only while the server answers.
 */

import { Component, type ComponentType, type LazyExoticComponent, lazy, type ReactNode } from "react";
import { t } from "../lib/language.ts";
import { Button, Empty } from "./parts.tsx";

const RELOADED = "codehub.reloaded";
const ONCE_IN_MS = 60_000;

interface Props {
  /** Another place begins anew. */
  place: string;
  children: ReactNode;
}

interface State {
  broken: Error | null;
  place: string;
}

export class Boundary extends Component<Props, State> {
  override state: State = { broken: null, place: this.props.place };

  static getDerivedStateFromError(broken: unknown): Partial<State> {
    return { broken: broken instanceof Error ? broken : new Error(String(broken)) };
  }

  static getDerivedStateFromProps(props: Props, state: State): Partial<State> | null {
    return props.place === state.place ? null : { broken: null, place: props.place };
  }

  override render(): ReactNode {
    const { broken } = this.state;
    if (!broken) return this.props.children;
    return (
      <main>
        <Empty title={t("broken.title")}>
          <p>{t(broken instanceof MissingPart ? "broken.part" : "broken.text")}</p>
          <Button kind="primary" icon="restore" onClick={() => location.reload()}>
            {t("broken.reload")}
          </Button>
          {!(broken instanceof MissingPart) && <p className="fine">{broken.message}</p>}
        </Empty>
      </main>
    );
  }
}

class MissingPart extends Error {}

/** A screen that comes when it is asked for. */
export function part<P extends object>(
  load: () => Promise<{ default: ComponentType<P> }>,
): LazyExoticComponent<ComponentType<P>> {
  return lazy(async () => {
    try {
      return await load();
    } catch (error) {
      if ((await answers()) && mayReload()) {
        location.reload();
        return new Promise<never>(() => undefined);
      }
      throw new MissingPart(String(error));
    }
  });
}

/** A page that is loaded anew while nobody answers would be the browser's own, and everything on this one lost. */
async function answers(): Promise<boolean> {
  try {
    return (await fetch(location.pathname, { cache: "no-store", signal: AbortSignal.timeout(5_000) })).ok;
  } catch {
    return false;
  }
}

function mayReload(): boolean {
  try {
    const last = Number(sessionStorage.getItem(RELOADED));
    if (Date.now() - last < ONCE_IN_MS) return false;
    sessionStorage.setItem(RELOADED, String(Date.now()));
    return true;
  } catch {
    return false; // without a memory it could reload for ever
  }
}
