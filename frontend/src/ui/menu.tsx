/** A button that opens a few choices: arrows, Escape and a click elsewhere do what people know from other menus. */

import { type KeyboardEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import type { IconName } from "./icons.tsx";
import { Button } from "./parts.tsx";

export interface Choice {
  label: ReactNode;
  key: string;
  onChoose: () => void;
}

export function Menu(props: { label: ReactNode; icon?: IconName; busy?: boolean; choices: Choice[] }) {
  const [open, setOpen] = useState(false);
  const whole = useRef<HTMLDivElement>(null);
  const id = useId();
  const items = (): HTMLElement[] => [...(whole.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
  const close = (): void => {
    setOpen(false);
    whole.current?.querySelector("button")?.focus();
  };

  // biome-ignore lint/correctness/useExhaustiveDependencies: only opening moves the focus
  useEffect(() => {
    if (!open) return;
    items()[0]?.focus();
    const away = (event: Event): void => {
      if (!whole.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);

  function move(event: KeyboardEvent): void {
    if (!open) return;
    if (event.key === "Escape") close();
    else if (event.key === "Tab") setOpen(false);
    else {
      const all = items();
      const at = all.indexOf(document.activeElement as HTMLElement);
      const to = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
      if (to === undefined) return;
      all[to % all.length]?.focus();
    }
    if (event.key !== "Tab") event.preventDefault();
  }

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the keys are those of the menu within
    <div className="menu" ref={whole} onKeyDown={move}>
      <Button
        aria-haspopup="menu"
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        {...(props.icon ? { icon: props.icon } : {})}
        busy={props.busy ?? false}
        onClick={() => setOpen(!open)}
      >
        {props.label}
      </Button>
      {open && (
        <div role="menu" id={id}>
          {props.choices.map((choice) => (
            <button
              key={choice.key}
              type="button"
              role="menuitem"
              tabIndex={-1}
              onClick={() => {
                close();
                choice.onChoose();
              }}
            >
              {choice.label}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
