/** Both languages say the same things, with the same places for values. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { en } from "../src/i18n/en.ts";
import { ko } from "../src/i18n/ko.ts";

const placesOf = (text: string): string[] => (text.match(/\{\w+\}/g) ?? []).sort();

test("the keys agree, and no text is empty", () => {
  assert.deepEqual(Object.keys(ko), Object.keys(en));
  for (const text of [...Object.values(en), ...Object.values(ko)]) assert.ok(text.trim());
});

test("the places for values agree", () => {
  for (const [key, text] of Object.entries(en)) {
    assert.deepEqual(placesOf(ko[key as keyof typeof en]), placesOf(text), key);
  }
});

test("Korean is Korean", () => {
  const same = new Set(["health.version", "health.redis", "create.image", "create.image_on", "audit.system"]);
  for (const [key, text] of Object.entries(ko)) {
    if (!same.has(key)) assert.match(text, /[가-힣]/, key);
  }
});

test("no key is left over", () => {
  const folder = join(import.meta.dirname, "../src");
  const sources = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name) && !name.includes("i18n"))
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("\n");
  // Keys that are made of a beginning and what the server says.
  const made = [...sources.matchAll(/`([a-z]+\.[a-z_]*)\$\{/g)].map((match) => match[1] as string);
  const asked = [...sources.matchAll(/known\("([a-z]+)"/g)].map((match) => `${match[1]}.`);
  for (const key of Object.keys(en)) {
    const counted = key.replace(/_one$/, "");
    const used = sources.includes(`"${counted}"`) || [...made, ...asked].some((start) => key.startsWith(start));
    assert.ok(used, key);
  }
});
