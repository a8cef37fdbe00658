/** Stopping one workspace so that another may run: one click for what takes two steps and a wait. */

import { ApiError } from "../api/client.ts";
import { want } from "./verbs.ts";

const LONGEST_MS = 60_000;
const PAUSE_MS = 700;

/** Whether it is a limit that stopping one of these would lift. */
export function isOverLimit(error: unknown): error is ApiError {
  return error instanceof ApiError && error.code === "over_limit";
}

/** Stop one, and then do what the limit refused; it is refused until the first has really stopped. */
export async function insteadOf<T>(stop: string, then: () => Promise<T>): Promise<T> {
  await want(stop, "STANDBY");
  const until = Date.now() + LONGEST_MS;
  for (;;) {
    try {
      return await then();
    } catch (error) {
      if (!isOverLimit(error) || Date.now() > until) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
