/** A question that stands before the page: the browser's own dialog, so that focus and Escape are as people know them. */

import { type FormEvent, type ReactNode, useId, useLayoutEffect, useRef } from "react";
import type { ApiError } from "../api/client.ts";
import { t } from "../lib/language.ts";
import { Button, Problem } from "./parts.tsx";

const TYPED = "form :is(input:not([type=radio], [type=checkbox]), textarea)";
const CHOSEN = "form :is(input, select)";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
}

export function Dialog({ title, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Closed before it leaves the page: then the browser puts the focus back where it was.
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    // Not the button that closes it, nor a choice that is made already: what is to be filled in.
    const first = shown?.querySelector<HTMLElement>(TYPED) ?? shown?.querySelector<HTMLElement>(CHOSEN);
    first?.focus();
    return () => shown?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <header>
        <h2 id={id}>{title}</h2>
        <Button kind="quiet" icon="close" aria-label={t("app.close")} onClick={onClose} />
      </header>
      {children}
    </dialog>
  );
}

interface AskProps extends DialogProps {
  yes: string;
  danger?: boolean;
  ready?: boolean;
  busy: boolean;
  error: ApiError | null;
  onYes: () => void;
}

/** A form in a dialog with one answer and a way back. */
export function Ask({ title, onClose, children, yes, danger, ready = true, busy, error, onYes }: AskProps) {
  function submit(event: FormEvent): void {
    event.preventDefault();
    if (ready && !busy) onYes();
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={submit}>
        {children}
        <Problem error={error} />
        <footer>
          <Button onClick={onClose}>{t("app.cancel")}</Button>
          <Button type="submit" kind={danger ? "danger" : "primary"} busy={busy} disabled={!ready}>
            {yes}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}
