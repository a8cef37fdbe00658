/** Light, dark, or as the machine has it. */

import { keepLook } from "./look.ts";

export type Theme = "auto" | "light" | "dark";

const KEPT = "codehub.theme";

export function theme(): Theme {
  const kept = localStorage.getItem(KEPT);
  return kept === "light" || kept === "dark" ? kept : "auto";
}

export function setTheme(wanted: Theme): void {
  localStorage.setItem(KEPT, wanted);
  apply();
}

export function apply(): void {
  document.documentElement.dataset.theme = theme();
  keepLook();
}
