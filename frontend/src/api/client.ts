/**
 * Calls to the API. Every attempt ends within 20 seconds, and whatever goes wrong is an ApiError: with the server's code
 * and message, or with code `offline` when there was no answer at all. A server that says that it is busy is asked again
 * a few times where doing it twice is doing it once: it may have been done, and nobody was told in time. So is one
 * that could not be reached, for what only reads: a machine that changes its network loses what is under way.
 */

const LONGEST_MS = 20_000;
const REPEATS = 2;
const LONGEST_PAUSE_MS = 5_000;
const OFFLINE_PAUSE_SECONDS = 0.5;
const BASE = "/api/v1";

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly details: Record<string, unknown>;
  readonly retryAfter: number | null;
  /** It was asked for before, and the server was busy: what was done then may be what stands in the way. */
  repeated = false;

  constructor(status: number, code: string, message: string, details = {}, retryAfter: number | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
    this.retryAfter = retryAfter;
  }
}

export interface Answer<T> {
  data: T;
  etag: string | null;
}

interface Asked {
  body?: unknown;
  query?: Record<string, string | number | boolean | readonly string[] | null | undefined>;
  ifMatch?: string | null;
}

type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Told when a session has ended; the application shows the login then. */
export const loggedOut = new EventTarget();

/**
 * A fresh proof that it is really them (services/proofs.py): in this page's memory and nowhere else, so that a page that
 * shares the session's cookie does not have it.
 */
let proof: { text: string; until: number } | null = null;
let askForProof: (() => Promise<boolean>) | null = null;

export function keepProof(given: { proof: string; seconds: number }): void {
  proof = { text: given.proof, until: Date.now() + given.seconds * 1000 };
}

/** Who asks people for their password, where a request needs it; the answer is whether they gave it. */
export function onProofAsked(ask: () => Promise<boolean>): void {
  askForProof = ask;
}

let clockOffset = 0;

/** The server's clock: deadlines are its times, and this machine's clock may be wrong. */
export function serverNow(): number {
  return Date.now() + clockOffset;
}

export async function call<T>(method: Method, path: string, asked: Asked = {}): Promise<Answer<T>> {
  // What was seen before may be what the first attempt has changed.
  const repeats = method === "POST" || asked.ifMatch ? 0 : REPEATS;
  let mayProve = true;
  for (let attempt = 0; ; attempt++) {
    try {
      return await callOnce<T>(method, path, asked);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.code === "proof_required" && mayProve && askForProof && (await askForProof())) {
        mayProve = false; // nothing was done yet
        attempt--;
        continue;
      }
      error.repeated = attempt > 0;
      const mayPass = error.status === 503 || error.code === "offline";
      if (!mayPass || error.retryAfter === null || attempt === repeats) throw error;
      const pause = Math.min(error.retryAfter * 1000, LONGEST_PAUSE_MS);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

async function callOnce<T>(method: Method, path: string, asked: Asked): Promise<Answer<T>> {
  const headers: Record<string, string> = { Accept: "application/json" };
  if (asked.body !== undefined) headers["Content-Type"] = "application/json";
  if (asked.ifMatch) headers["If-Match"] = asked.ifMatch;
  if (proof && method !== "GET" && Date.now() < proof.until) headers["Login-Proof"] = proof.text;
  let response: Response;
  let text: string;
  try {
    response = await fetch(BASE + path + queryOf(asked.query), {
      method,
      headers,
      ...(asked.body === undefined ? {} : { body: JSON.stringify(asked.body) }),
      signal: AbortSignal.timeout(LONGEST_MS),
    });
    text = await response.text();
  } catch (error) {
    // Who waited as long as one waits is told; and a write may have arrived.
    const timedOut = error instanceof DOMException && error.name === "TimeoutError";
    const again = method === "GET" && !timedOut ? OFFLINE_PAUSE_SECONDS : null;
    throw new ApiError(0, "offline", "", {}, again);
  }
  noteClock(response.headers.get("date"));
  if (!response.ok) throw errorOf(response, text, path);
  return { data: (text ? JSON.parse(text) : null) as T, etag: response.headers.get("etag") };
}

export async function get<T>(path: string, query?: Asked["query"]): Promise<T> {
  return (await call<T>("GET", path, query ? { query } : {})).data;
}

export async function post<T>(path: string, body?: unknown, query?: Asked["query"]): Promise<T> {
  return (await call<T>("POST", path, { body, ...(query ? { query } : {}) })).data;
}

/** End it for good; what is gone when it is asked for again was ended the first time. */
export async function end(path: string): Promise<void> {
  try {
    await call("DELETE", path);
  } catch (error) {
    if (!(error instanceof ApiError && error.repeated && error.status === 404)) throw error;
  }
}

/** Every item of a list, page by page. */
export async function all<T>(path: string, query: Asked["query"] = {}): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | null = null;
  do {
    const page: { items: T[]; next_cursor: string | null } = await get(path, { ...query, limit: 200, cursor });
    found.push(...page.items);
    cursor = page.next_cursor;
  } while (cursor);
  return found;
}

/** Where a browser goes for itself: what is saved as a file, for example. */
export function urlOf(path: string, query: Asked["query"]): string {
  return BASE + path + queryOf(query);
}

function queryOf(given: Asked["query"]): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    if (Array.isArray(value)) for (const each of value) query.append(name, each);
    else query.append(name, String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

function errorOf(response: Response, text: string, path: string): ApiError {
  let told: { code?: string; message?: string; details?: Record<string, unknown> } = {};
  try {
    told = JSON.parse(text).error ?? {};
  } catch {
    // something between us and the server answered
  }
  if (response.status === 401 && path !== "/login") loggedOut.dispatchEvent(new Event("ended"));
  const after = Number(response.headers.get("retry-after"));
  return new ApiError(
    response.status,
    told.code ?? `http_${response.status}`,
    told.message ?? response.statusText,
    told.details ?? {},
    after > 0 ? after : null,
  );
}

function noteClock(date: string | null): void {
  const at = date ? Date.parse(date) : Number.NaN;
  if (Number.isNaN(at)) return;
  const difference = at + 500 - Date.now(); // the header has whole seconds
  clockOffset = Math.abs(difference) > 2_000 ? difference : 0;
}
