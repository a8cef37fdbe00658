/** What a form is told apart by and keeps: drafts with what they began from, images and where they run, tags. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Images } from "../src/api/types.ts";
import { isSame } from "../src/lib/changed.ts";
import { draftOf } from "../src/lib/draft.ts";
import { backendsFor, choicesOf, patternsOf } from "../src/lib/images.ts";
import { piecesOf } from "../src/lib/pieces.ts";
import { tagsOf } from "../src/lib/tags.ts";

test("a list that came anew is the same list", () => {
  assert.ok(isSame(["a", "b"], ["a", "b"]));
  assert.ok(isSame(null, null));
  for (const [one, other] of [
    [["a"], ["b"]],
    [["a"], []],
    ["a", null],
    [0, null],
  ]) {
    assert.ok(!isSame(one, other), `${one} ${other}`);
  }
});

test("a draft is kept with what it began from", () => {
  assert.deepEqual(draftOf(JSON.stringify({ text: "mine", base: "theirs" })), { text: "mine", base: "theirs" });
  assert.deepEqual(draftOf(JSON.stringify({ text: "", base: null })), { text: "", base: null });
  assert.deepEqual(draftOf("of an earlier version"), { text: "of an earlier version", base: null });
  assert.deepEqual(draftOf("12"), { text: "12", base: null });
  assert.deepEqual(draftOf("null"), { text: "null", base: null });
  assert.equal(draftOf(null), null);
});

const images: Images = {
  default_backend: "process",
  items: [
    { name: "heavy", backends: ["docker"], is_pattern: false },
    { name: "ide", backends: ["docker", "process"], is_pattern: false },
    { name: "registry.example/a/*", backends: ["docker"], is_pattern: true },
    { name: "registry.example/b/*", backends: ["docker", "k8s"], is_pattern: true },
  ],
};

test("an image runs where its own entry or pattern says", () => {
  assert.deepEqual(backendsFor(images, "registry.example/a/ide:1"), ["docker"]);
  assert.deepEqual(backendsFor(images, "registry.example/b/ide:1"), ["docker", "k8s"]);
  assert.deepEqual(backendsFor({ ...images, default_backend: "k8s" }, "registry.example/b/x"), ["k8s", "docker"]);
  assert.deepEqual(backendsFor(images, "ide"), ["process", "docker"]);
  assert.deepEqual(backendsFor(images, "registry.example/c/ide"), []);
  assert.deepEqual(backendsFor(images, ""), []);
  assert.deepEqual(choicesOf(images)[0], { image: "ide", backend: "process" });
  assert.deepEqual(patternsOf(images, "k8s"), ["registry.example/b/*"]);
});

test("a line has a gap where nothing is known", () => {
  const pieces = [
    [
      [1, 5],
      [2, 0],
    ],
    [[4, 7]],
  ];
  assert.deepEqual(piecesOf([1, 2, 3, 4, 5], [5, 0, null, 7, null]), pieces);
});

test("tags are what is between commas, each once", () => {
  assert.deepEqual(tagsOf(" gpu, course 1 ,,gpu"), ["gpu", "course 1"]);
  assert.deepEqual(tagsOf("  "), []);
});
