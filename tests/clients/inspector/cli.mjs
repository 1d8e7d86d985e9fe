// What MCP Inspector's command line sees of the example `everything`. Each command is a client of its own, and talks
// through a relay. In the modern era it subscribes as it connects, and goes on once it has the acknowledgement,
// whatever the command (`openModernListenStreamOnConnect` in clients/cli/build/index.js).
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { relay } from "./relay.mjs";

const VERSIONS = { legacy: "2025-11-25", modern: "2026-07-28" };
const CHANGES = { promptsListChanged: true, resourcesListChanged: true, toolsListChanged: true };
const LONG = 20_000; // ms, longer than any wait here

const [server, era] = process.argv.slice(2);
assert.ok(VERSIONS[era], "arguments: URL legacy|modern");
const manifest = createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json");
const inspector = join(dirname(manifest), "clients/launcher/build/index.js");
let commands = 0;

await connects();
await callsTools();
await reads();
if (era === "modern") await hearsOfChanges();
await debugShows(({ parked, outcomes }) => {
  const { cancelled, disconnected, shut_down, timed_out } = outcomes;
  // A modern client ends its subscription by leaving; one has left a call, too.
  const left = era === "modern" ? commands + 1 : 0;
  return [parked, cancelled, disconnected, shut_down, timed_out].join() === [0, 0, left, 0, 0].join();
});
console.log(`ok inspector ${era}`);

async function connects() {
  const { serverInfo, protocolVersion } = await prints("initialize");
  assert.deepEqual([serverInfo.name, protocolVersion], ["everything", VERSIONS[era]]);
}

async function callsTools() {
  const tools = (await prints("tools/list")).tools.map((tool) => tool.name);
  const missing = ["echo", "fail", "panic", "slow"].filter((tool) => !tools.includes(tool));
  assert.deepEqual(missing, [], `tools of ${tools}`);

  const { content } = await prints("tools/call", "--tool-name", "echo", "--tool-arg", "text=hello");
  assert.deepEqual(content, [{ type: "text", text: "hello" }]);
  const failed = await inspect("tools/call", "--tool-name", "fail");
  assert.deepEqual([failed.status, failed.error.code, failed.result.isError], [5, "tool_is_error", true]);
  const panicked = await inspect("tools/call", "--tool-name", "panic");
  assert.deepEqual([panicked.status, panicked.error.message], [1, "Internal error"]);
  if (era === "modern") {
    // It declares no elicitation. Asked all the same, it would wait for a user whom it cannot ask.
    const asking = await inspect("tools/call", "--tool-name", "test_elicitation", "--tool-arg", "message=hello");
    const lacks = "Client does not declare a capability that this request requires";
    assert.deepEqual([asking.status, asking.error.message], [1, lacks]);
  }
}

async function reads() {
  const { resources } = await prints("resources/list");
  assert.ok(resources.some(({ uri }) => uri === "test://static-text"));
  const { contents } = await prints("resources/read", "--uri", "test://static-text");
  assert.equal(contents[0].text, "a text that stays the same");

  const { prompts } = await prints("prompts/list");
  assert.ok(prompts.some(({ name }) => name === "test_prompt_with_arguments"));
  const words = ["--prompt-args", "arg1=oak", "arg2=sea"];
  const { messages } = await prints("prompts/get", "--prompt-name", "test_prompt_with_arguments", ...words);
  assert.equal(messages[0].content.text, "Make a sentence with oak and sea.");
}

// What another client changes comes over the subscription, which ends with the command, as its call does.
async function hearsOfChanges() {
  const calling = await start("tools/call", "--tool-name", "slow", "--tool-arg", `ms=${LONG}`);
  const { exchanges, listens } = calling;
  await until(() => exchanges.some(({ sent }) => sent.includes('"tools/call"')), () => exchanges);
  await prints("tools/call", "--tool-name", "test_trigger_tool_change");
  await until(() => events(listens()[0]).length === 2, () => exchanges);
  const { id } = JSON.parse(listens()[0].sent);
  const changed = { method: "notifications/tools/list_changed", params: { _meta: subscription(id) } };
  assert.deepEqual(events(listens()[0])[1], { jsonrpc: "2.0", ...changed });

  calling.child.kill("SIGINT");
  assert.equal((await calling.done).status, "SIGINT");
}

async function prints(...command) {
  const { status, result, error } = await inspect(...command);
  assert.deepEqual([status, error], [0, undefined], command.join(" "));
  return result;
}

// Runs a command to its end, and looks at what it has said to the server.
async function inspect(...command) {
  const { done, exchanges, listens } = await start(...command);
  const printed = await done;
  await until(() => exchanges.every(({ ended }) => ended), () => exchanges);
  if (era === "legacy") {
    assert.deepEqual(listens(), []);
  } else {
    const [listen, ...others] = listens();
    assert.deepEqual(others, []);
    const { id, params } = JSON.parse(listen.sent);
    const acknowledged = { notifications: CHANGES, _meta: subscription(id) };
    assert.deepEqual(params.notifications, CHANGES);
    const first = { jsonrpc: "2.0", method: "notifications/subscriptions/acknowledged", params: acknowledged };
    assert.deepEqual(events(listen)[0], first);
    assert.deepEqual([listen.status, listen.ended], [200, "by the client"]);
  }
  return printed;
}

async function start(...command) {
  commands += 1;
  const { url, exchanges, close } = await relay(server);
  const options = ["--cli", url.href, "--protocol-era", era, "--format", "json", "--method", ...command];
  const child = spawn(process.execPath, [inspector, ...options], { stdio: ["ignore", "pipe", "pipe"], timeout: LONG });
  const ended = new Promise((resolve) => child.on("close", (code, signal) => resolve(signal ?? code)));
  const done = Promise.all([ended, text(child.stdout), text(child.stderr)]).then(([status, out, err]) => {
    close();
    return { status, result: out && JSON.parse(out).result, error: err ? JSON.parse(err).error : undefined };
  });
  const listens = () => exchanges.filter(({ sent }) => sent.includes('"subscriptions/listen"'));
  return { child, done, exchanges, listens };
}

function subscription(id) {
  return { "io.modelcontextprotocol/subscriptionId": id };
}

function events({ received }) {
  const whole = received.split("\n\n").slice(0, -1);
  return whole.filter((event) => event.startsWith("data:")).map((event) => JSON.parse(event.slice("data:".length)));
}

async function debugShows(holds) {
  let page;
  const seen = async () => holds((page = await (await fetch(new URL("/debug", server))).json()));
  await until(seen, () => page);
}

// Polls: nobody tells a client what happens on the server.
async function until(holds, seen) {
  const deadline = Date.now() + 10_000;
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `${holds}: not within 10 s; last seen: ${JSON.stringify(seen())}`);
    await sleep(20);
  }
}
