/** A server that is busy or away: asked again where that does no harm, for a while; a wish that it heard is not lost. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { type ApiError, call, end } from "../src/api/client.ts";
import { remove, want } from "../src/state/verbs.ts";

interface Told {
  status: number;
  body?: unknown;
  /** Instead of an answer. */
  fails?: Error;
}

const busy: Told = { status: 503, body: { error: { code: "unavailable", message: "Busy." } } };
const cut: Told = { status: 0, fails: new TypeError("Failed to fetch") };
const silent: Told = { status: 0, fails: new DOMException("signal timed out", "TimeoutError") };
const done: Told = { status: 200, body: { id: "w", desired_state: "RUNNING", deleted_at: null } };
const refused = (desired_state: string): Told => ({
  status: 409,
  body: { error: { code: "conflict", message: "STARTING is in progress.", details: { desired_state } } },
});

/** A server that says these in turn; what it was asked. */
function serverOf(...answers: Told[]): string[] {
  const asked: string[] = [];
  globalThis.fetch = async (_where, how) => {
    asked.push(String(how?.method));
    const told = answers.shift() ?? { status: 500 };
    if (told.fails) throw told.fails;
    const headers = told.status === 503 ? { "retry-after": "0.01" } : {};
    return new Response(told.body === undefined ? null : JSON.stringify(told.body), { status: told.status, headers });
  };
  return asked;
}

const failure = (asking: Promise<unknown>): Promise<ApiError> =>
  asking.then(
    () => assert.fail("it was answered"),
    (error) => error as ApiError,
  );

test("it is asked again, and not for ever", async () => {
  serverOf(busy, busy, done);
  assert.equal((await call<{ id: string }>("GET", "/workspaces/w")).data.id, "w");
  const asked = serverOf(busy, busy, busy, done);
  assert.equal((await failure(call("GET", "/workspaces/w"))).status, 503);
  assert.equal(asked.length, 3);
});

test("what is not the same when done twice is not asked for again", async () => {
  for (const asking of [
    () => call("POST", "/workspaces", { body: { name: "w" } }),
    () => call("PATCH", "/workspaces/w", { body: { name: "w" }, ifMatch: '"seen"' }),
  ]) {
    const asked = serverOf(busy, done);
    assert.equal((await failure(asking())).status, 503);
    assert.equal(asked.length, 1);
  }
});

test("a connection that breaks is tried again where nothing was to be changed", async () => {
  serverOf(cut, done);
  assert.equal((await call<{ id: string }>("GET", "/workspaces/w")).data.id, "w");
  const asked = serverOf(cut, cut, cut, done);
  assert.equal((await failure(call("GET", "/workspaces/w"))).code, "offline");
  assert.equal(asked.length, 3);
});

test("a write that may have arrived is not sent again, and who has waited long is told", async () => {
  for (const [method, fails] of [
    ["POST", cut],
    ["PATCH", cut],
    ["DELETE", cut],
    ["GET", silent],
  ] as const) {
    const asked = serverOf(fails, done);
    assert.equal((await failure(call(method, "/workspaces/w"))).code, "offline");
    assert.deepEqual(asked, [method]);
  }
});

test("an answer that breaks off is none", async () => {
  const broken = new ReadableStream({ start: (stream) => stream.error(new TypeError("network error")) });
  globalThis.fetch = async () => new Response(broken);
  assert.equal((await failure(call("POST", "/workspaces"))).code, "offline");
});

test("a wish that was heard although the server said that it is busy is done", async () => {
  let asked = serverOf(busy, refused("RUNNING"), done);
  assert.equal((await want("w", "RUNNING")).id, "w");
  assert.deepEqual(asked, ["PATCH", "PATCH", "GET"]);
  asked = serverOf(busy, refused("DELETED"), done);
  assert.equal((await remove("w", {})).id, "w");
  assert.deepEqual(asked, ["DELETE", "DELETE", "GET"]);
  serverOf(busy, { status: 404 });
  await end("/tokens/t");
});

test("another's wish is not ours", async () => {
  serverOf(refused("RUNNING"));
  assert.equal((await failure(want("w", "RUNNING"))).status, 409);
  serverOf(busy, refused("STANDBY"));
  assert.equal((await failure(want("w", "RUNNING"))).status, 409);
  serverOf(busy, refused("DELETED"));
  assert.equal((await failure(remove("w", { purge: true }))).status, 409);
  serverOf({ status: 404 });
  assert.equal((await failure(end("/tokens/t"))).status, 404);
});
