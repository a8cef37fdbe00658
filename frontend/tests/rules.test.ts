/** The page's own rules: where a login may lead, what a list shows, what a history is made of, what Markdown may do. */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { HistoryLine, Workspace } from "../src/api/types.ts";
import { INLINE } from "../src/lib/inline.ts";
import { localPath } from "../src/lib/localPath.ts";
import { afterwardsOf, forcedOf, recoveryOf } from "../src/lib/recovering.ts";
import { rounded } from "../src/lib/rounded.ts";
import { entryOf } from "../src/lib/runbook.ts";
import { segmentsOf, usualSeconds } from "../src/lib/segments.ts";
import { sorted, sortedBy, sortingOf } from "../src/lib/sorting.ts";
import { applies, type BulkVerb } from "../src/state/bulk.ts";
import { listed, viewOf } from "../src/state/listing.ts";

test("after a login one stays here", () => {
  for (const fine of ["/", "/trash", "/w/0b1f/?folder=%2Fhome", "/a%20b"]) assert.equal(localPath(fine), fine);
  for (const bad of [
    null,
    "",
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "/%2f/evil.example",
    "/%5cevil.example",
    "/%252f%252fevil",
    "javascript:alert(1)",
    "/a b",
    "/\t/evil.example",
    `/${"a".repeat(2001)}`,
  ]) {
    assert.equal(localPath(bad), "/", String(bad));
  }
});

const workspace = (name: string, more: Partial<Workspace> = {}): Workspace =>
  ({
    id: name,
    name,
    description: null,
    image_ref: "jupyterlab",
    phase: "STANDBY",
    operation: "NONE",
    created_at: "2026-01-01T00:00:00+00:00",
    last_access_at: null,
    desired_state: "STANDBY",
    tags: [],
    is_favorite: false,
    ...more,
  }) as Workspace;

const collator = new Intl.Collator("en", { numeric: true });

test("a list is searched, narrowed, counted and sorted", () => {
  const all = [
    workspace("w10"),
    workspace("w2", { phase: "RUNNING", last_access_at: "2026-02-01T00:00:00+00:00" }),
    workspace("other", { description: "about W2", operation: "STARTING", tags: ["gpu"], is_favorite: true }),
  ];
  const by = (view: Partial<Parameters<typeof listed>[1]>) =>
    listed(all, { text: "", tag: "", narrow: "all", sort: "name", ...view }, collator);
  assert.deepEqual(by({}).ids, ["other", "w2", "w10"]);
  assert.deepEqual(by({ sort: "recent" }).ids[0], "w2");
  assert.deepEqual(by({ text: " w2 " }).ids, ["other", "w2"]);
  assert.deepEqual(by({ text: "GP" }).ids, ["other"]);
  assert.deepEqual(by({ tag: "gpu" }).ids, ["other"]);
  assert.deepEqual(by({ tag: "gp" }).ids, []);
  assert.deepEqual(by({ narrow: "busy" }).ids, ["other"]);
  assert.deepEqual(by({ narrow: "favorite" }).ids, ["other"]);
  assert.deepEqual(by({ narrow: "RUNNING" }).ids, ["w2"]);
  assert.equal(by({ narrow: "RUNNING" }).counts.get("STANDBY"), 2);
});

test("an address says what a list shows, and nonsense in it says nothing", () => {
  const of = (text: string) => viewOf(new URLSearchParams(text));
  assert.deepEqual(of("q=a%20b&show=RUNNING&sort=name&tag=gpu"), {
    text: "a b",
    tag: "gpu",
    narrow: "RUNNING",
    sort: "name",
  });
  assert.deepEqual(of("show=x&sort=constructor"), { text: "", tag: "", narrow: "all", sort: "recent" });
});

test("what is done to many is done to those only that it means something for", () => {
  const stopped = workspace("stopped");
  const running = workspace("running", { phase: "RUNNING", desired_state: "RUNNING" });
  const broken = workspace("broken", { phase: "ERROR" });
  const busy = workspace("busy", { operation: "STOPPING" });
  const going = workspace("going", { desired_state: "DELETED" });
  const all = [stopped, running, broken, busy, going];
  const meant = (verb: BulkVerb) => all.filter((each) => applies(verb, each)).map((each) => each.name);
  assert.deepEqual(meant("start"), ["stopped"]);
  assert.deepEqual(meant("stop"), ["running"]);
  assert.deepEqual(meant("archive"), ["stopped", "running"]);
  assert.deepEqual(meant("delete"), ["stopped", "running"], "what is lost with an error is asked about alone");
});

const line = (seconds: number, phase: string, operation: string, error: string | null = null): HistoryLine =>
  ({
    at: new Date(seconds * 1000).toISOString(),
    phase,
    operation,
    error_reason: error,
    reason: "",
    cause: "user ada",
    duration_ms: null,
  }) as HistoryLine;

test("after a recovery one that is being deleted is deleted, and nothing else is asked for", () => {
  const going = afterwardsOf(workspace("going", { phase: "ERROR", desired_state: "DELETED" }), null);
  assert.deepEqual(recoveryOf("as_is", false, going), { from: "as_is", forced: false });
  const stuck = workspace("stuck", { phase: "ERROR", desired_state: "RUNNING" });
  const asked = (chosen: "ARCHIVED" | null) => recoveryOf("archive", true, afterwardsOf(stuck, chosen)).desired_state;
  assert.deepEqual([asked(null), asked("ARCHIVED")], ["RUNNING", "ARCHIVED"]);
});

test("a history is pieces of time, and says how long things usually take", () => {
  const lines = [
    line(0, "STANDBY", "STARTING"),
    line(4, "STANDBY", "STARTING", "ActionFailed"),
    line(10, "RUNNING", "NONE"),
    line(100, "RUNNING", "STOPPING"),
    line(101, "STANDBY", "NONE"),
    line(200, "STANDBY", "STARTING"),
    line(203, "RUNNING", "NONE"),
  ].reverse();
  const segments = segmentsOf(lines, 300_000);
  assert.deepEqual(
    segments.map((each) => [each.operation, (each.to - each.from) / 1000]),
    [
      ["STARTING", 10],
      ["NONE", 90],
      ["STOPPING", 1],
      ["NONE", 99],
      ["STARTING", 3],
      ["NONE", 97],
    ],
  );
  const archiving = [line(0, "STANDBY", "ARCHIVING"), line(5, "ARCHIVED", "ARCHIVING"), line(6, "ARCHIVED", "NONE")];
  assert.deepEqual(
    segmentsOf(archiving.reverse(), 9_000).map((each) => each.operation),
    ["ARCHIVING", "NONE"],
    "one operation is one piece",
  );
  assert.equal(usualSeconds(segments, "STARTING"), 3, "the attempt that failed does not count");
  assert.equal(usualSeconds(segments, "RESTORING"), null);
});

test("no memo takes long to read", () => {
  const runs = Array.from({ length: 190 }, (_, length) => `${"`".repeat(length + 1)}a`).join("");
  for (const memo of ["`".repeat(20_000), runs, "[".repeat(20_000), "**a ".repeat(5_000), "https://".repeat(2_500)]) {
    const started = process.cpuUsage(); // not the clock's: others may be busy
    let rest = memo;
    for (let match = INLINE.exec(rest); match; match = INLINE.exec(rest)) {
      rest = rest.slice(match.index + match[0].length);
    }
    assert.ok(process.cpuUsage(started).user < 5_000_000, memo.slice(0, 20));
  }
});

test("backticks hold code", () => {
  assert.equal(INLINE.exec("a `b` c")?.[2], "b");
  assert.equal(INLINE.exec("``a`b``")?.[2], "a`b");
  assert.equal(INLINE.exec("``a`")?.[2], undefined);
});

test("an entry of the runbook is what stands below its heading", () => {
  const text = "# Runbook\n\n### CH-A-1\n\nFirst.\n\n### CH-A-10\n\nTenth.\n";
  assert.equal(entryOf(text, "CH-A-1"), "First.");
  assert.equal(entryOf(text, "CH-A-10"), "Tenth.");
  assert.equal(entryOf(text, "CH-B-1"), null);
  const folded = "### CH-A-1\n\n**Bad.** Two\nlines; see\n[backup.md](backup.md#x).\n\nMore.\n";
  assert.equal(entryOf(folded, "CH-A-1"), "**Bad.** Two lines; see `docs/backup.md`.\n\nMore.");
});

test("a table is sorted as its address says, and turned round by a second click", () => {
  const columns = ["name", "made"];
  assert.deepEqual(sortingOf("-name", columns, "made"), { by: "name", isDescending: true });
  for (const wrong of [null, "", "--name", "owner", "-"]) {
    assert.deepEqual(sortingOf(wrong, columns, "-made"), { by: "made", isDescending: true }, String(wrong));
  }
  assert.equal(sortedBy("name", { by: "made", isDescending: true }), "name");
  assert.equal(sortedBy("name", { by: "name", isDescending: false }), "-name");
  assert.equal(sortedBy("name", { by: "name", isDescending: true }), "name");
  const collator = new Intl.Collator("en", { numeric: true });
  const items = [{ name: "b" }, { name: null }, { name: "a10" }, { name: "a9" }];
  const names = (isDescending: boolean): (string | null)[] =>
    sorted(items, { by: "name", isDescending }, (item) => item.name, collator).map((each) => each.name);
  assert.deepEqual(names(false), ["a9", "a10", "b", null]);
  assert.deepEqual(names(true), ["b", "a10", "a9", null]);
});

test("a span of time is rounded, not cut off", () => {
  const [hour, day] = [3600, 86400];
  for (const [seconds, expected] of [
    [7 * day - 60, [7, "day"]],
    [6.4 * day, [6, "day"]],
    [day - 60, [1, "day"]],
    [23.4 * hour, [23, "hour"]],
    [hour - 20, [1, "hour"]],
    [90 * 60, [2, "hour"]],
    [59.6, [1, "minute"]],
    [-59, [-59, "second"]],
    [-6.9 * day, [-7, "day"]],
  ] as const) {
    assert.deepEqual(rounded(seconds), expected, String(seconds));
  }
});

test("an administrator may use a home that nothing proves whole, and give up one that is", () => {
  const inError = (reason: string, from: string[], archived = true) =>
    ({
      archived,
      error: { can_recover_from: from },
      conditions: { "storage.volume_ready": { status: false, reason, message: "" } },
    }) as unknown as Workspace;
  const unproven = inError("VolumeUnproven", ["as_is", "archive"]);
  assert.deepEqual(forcedOf(unproven, true), ["volume", "blank"]);
  assert.deepEqual(forcedOf(unproven, false), []);
  assert.deepEqual(forcedOf(inError("VolumeUnknown", ["as_is", "volume"]), true), ["archive", "blank"]);
  assert.deepEqual(forcedOf(inError("VolumeUnknown", ["as_is", "volume"], false), true), ["blank"]);
  assert.deepEqual(forcedOf(inError("VolumeNotFound", ["as_is", "archive", "blank"]), true), []);
});
