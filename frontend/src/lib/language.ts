/** The page's language: the browser's first that we speak, or what was chosen here. */

import { useSyncExternalStore } from "react";
import { en, type Key, type Words } from "../i18n/en.ts";
import { ko } from "../i18n/ko.ts";
import { keepLook } from "./look.ts";

export type Language = "en" | "ko";
export const LANGUAGES: Record<Language, string> = { en: "English", ko: "한국어" };

const KEPT = "codehub.language";
const WORDS: Record<Language, Words> = { en, ko };
const listeners = new Set<() => void>();

let current: Language = chosen() ?? browsers();
document.documentElement.lang = current;

function chosen(): Language | null {
  const kept = localStorage.getItem(KEPT);
  return kept === "en" || kept === "ko" ? kept : null;
}

function browsers(): Language {
  for (const each of navigator.languages) {
    const name = each.slice(0, 2).toLowerCase();
    if (name === "ko" || name === "en") return name;
  }
  return "en";
}

export function language(): Language {
  return current;
}

export function setLanguage(wanted: Language): void {
  localStorage.setItem(KEPT, wanted);
  current = wanted;
  document.documentElement.lang = wanted;
  keepLook();
  for (const listener of listeners) listener();
}

export function useLanguage(): Language {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}

export type Values = Record<string, string | number>;

/** A text in the page's language; `{name}` in it is replaced. */
export function t(key: Key, values: Values = {}): string {
  return WORDS[current][key].replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** The same for a number of things: `key_one` when there is one. */
export function counted(key: Key, n: number, values: Values = {}): string {
  const one = `${key}_one`;
  return t(n === 1 && one in en ? (one as Key) : key, { n: n.toLocaleString(current), ...values });
}

/** Every name that there are words for below a prefix. */
export function wordsOf(prefix: string): string[] {
  const head = `${prefix}.`;
  return Object.keys(en).flatMap((key) => (key.startsWith(head) ? [key.slice(head.length)] : []));
}

/** A text whose key is made of what the server said; null when there is none for it. */
export function known(prefix: string, name: string, values: Values = {}): string | null {
  const key = `${prefix}.${name}`;
  return key in en ? t(key as Key, values) : null;
}
