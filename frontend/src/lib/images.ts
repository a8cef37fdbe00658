/** Which images may be named, and where each can run: the allow-list as the server reads it (model/images.py). */

import type { Images, NewWorkspace } from "../api/types.ts";

export type Backend = NonNullable<NewWorkspace["backend"]>;

/** One image on one backend. */
export interface Choice {
  image: string;
  backend: Backend;
}

/** Each image on each backend; the first is what the server takes when nothing is said. */
export function choicesOf(images: Images): Choice[] {
  const fixed = images.items.filter((each) => !each.is_pattern);
  const pairs = fixed.flatMap((each) => each.backends.map((backend) => ({ image: each.name, backend })));
  return pairs.sort((a, b) => usualFirst(images, a.backend, b.backend));
}

/** Where the allow-list lets this image run, the usual backend first. */
export function backendsFor(images: Images, reference: string): Backend[] {
  const fitting = images.items.filter((each) =>
    each.is_pattern ? matches(each.name, reference) : each.name === reference,
  );
  const backends = new Set(fitting.flatMap((each) => each.backends));
  return [...backends].sort((a, b) => usualFirst(images, a, b));
}

/** What references may look like, on one backend or on any. */
export function patternsOf(images: Images, backend?: Backend): string[] {
  const patterns = images.items.filter((each) => each.is_pattern && (!backend || each.backends.includes(backend)));
  return patterns.map((each) => each.name);
}

/** `*` stands for anything but `/`, and at the end after a `/` for everything below. A short name is no reference. */
export function matches(pattern: string, reference: string): boolean {
  if (!/[/:@]/.test(reference)) return false;
  const below = pattern.endsWith("/*") || pattern === "*";
  const fixed = below ? pattern.slice(0, -1) : pattern;
  const parts = fixed.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^/]*")}${below ? ".+" : ""}$`).test(reference);
}

function usualFirst(images: Images, a: Backend, b: Backend): number {
  return Number(b === images.default_backend) - Number(a === images.default_backend);
}
