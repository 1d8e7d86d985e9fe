// A TypeScript client whose call is cancelled in front of the example `rmcp`. It takes an error for no response and comes
// back for one, with the last event's id: once, and not for ever.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(import.meta.url); // an import would not look into NODE_PATH
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

const gets = [];
const errors = [];
const observed = async (input, init) => {
  if (init.method !== "GET") return fetch(input, init);
  const get = { resumes: new Headers(init.headers).has("last-event-id") };
  gets.push(get);
  const response = await fetch(input, init);
  get.status = response.status;
  return response;
};

const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]), { fetch: observed });
const client = new Client({ name: "checks", version: "0" });
client.onerror = (error) => errors.push(error);
await client.connect(transport);

const abort = new AbortController();
const call = client.callTool({ name: "slow", arguments: { ms: 60_000 } }, undefined, { signal: abort.signal });
call.catch(() => {}); // its end is looked at below
await sleep(300);
abort.abort("enough");
await assert.rejects(call, /enough/);
await until("the client comes back", () => gets.some(({ resumes, status }) => resumes && status));
await sleep(4_000); // longer than rmcp's `retry: 3000`
assert.deepEqual(gets.filter(({ resumes }) => resumes), [{ resumes: true, status: 405 }], "the client comes back");
assert.equal(gets.filter(({ status }) => status === 200).length, 1, "its stream for what the server says by itself");
const others = errors.filter((error) => !error.message.includes("unknown message ID"));
assert.deepEqual(others.map(String), [], "errors of the SDK");
assert.equal((await client.callTool({ name: "echo", arguments: { text: "hello" } })).content[0].text, "hello");
await transport.terminateSession();
await client.close();
console.log("ok typescript-sdk-1 in front of rmcp");

async function until(what, holds) {
  for (const deadline = Date.now() + 10_000; !holds(); await sleep(20)) {
    assert.ok(Date.now() < deadline, `${what}: not within 10 s`);
  }
}
