import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

export function within(seconds, what, promise) {
  const timer = new AbortController();
  const late = sleep(seconds * 1_000, undefined, timer).then(() => assert.fail(`${what}: not within ${seconds} s`));
  late.catch(() => {}); // its timer is called off
  return Promise.race([promise, late]).finally(() => timer.abort());
}
