/** Puts a text on the clipboard, and says whether that was possible. */

import { t } from "../lib/language.ts";
import { Button } from "./parts.tsx";
import { say } from "./toasts.tsx";

export function CopyButton({ text, label }: { text: string; label?: string }) {
  async function copy(): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      say(t("app.copied"));
    } catch {
      say(t("app.not_copied"));
    }
  }
  return (
    <Button icon="copy" aria-label={label} onClick={() => void copy()}>
      {t("app.copy")}
    </Button>
  );
}
