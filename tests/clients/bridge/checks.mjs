// What a TypeScript client sees of the npm package `@modelcontextprotocol/server-everything` behind the bridge.
import assert from "node:assert/strict";
import { recording } from "../recording.mjs";
import { within } from "../within.mjs";

const VERSIONS = { legacy: "2025-11-25", modern: "2026-07-28" };
const LONG = "trigger-long-running-operation";
const ROOTS = [{ uri: "file:///home/checks", name: "home" }];

// `connect(url, { era, fetch, onerror, onlog, answers })` gives { version, tools(), call(name, arguments, options), close() }.
// What the server asks is answered by the function of its method in `answers`.
export async function check(name, connect) {
  const [url, era] = process.argv.slice(2);
  assert.ok(VERSIONS[era], "arguments: URL legacy|modern");
  await new Checks(url, era).run(connect);
  console.log(`ok ${name} ${era}`);
}

class Checks {
  posts = []; // what the SDK posted, and what became of it
  fetch = recording(this.posts);
  errors = []; // what the SDK told its `onerror`

  constructor(url, era) {
    this.url = new URL(url);
    this.era = era;
  }

  async run(connect) {
    const { era, fetch, answers } = this;
    const onerror = (error) => this.errors.push(error);
    const onlog = (note) => this.logged(note);
    this.client = await within(15, "connect", connect(this.url, { era, fetch, onerror, onlog, answers }));
    assert.equal(this.client.version, VERSIONS[era], "the negotiated version");
    await this.lists();
    await this.echoes("hello");
    await this.reportsProgress();
    await this.isCancelled();
    await this.runsBesideOthers();
    if (era === "legacy") await this.isAsked();
    if (era === "legacy") await this.listens();
    await within(5, "close", this.client.close());
    const others = this.errors.filter(({ message }) => !/unknown message ID|unknown token/.test(message));
    assert.deepEqual(others.map(String), [], "errors of the SDK");
  }

  async lists() {
    const tools = (await within(5, "tools/list", this.client.tools())).map((tool) => tool.name);
    // Those that ask are there only for a client that can be asked.
    const asks = ["trigger-sampling-request", "trigger-elicitation-request", "get-roots-list"];
    for (const name of ["echo", LONG]) assert.ok(tools.includes(name), `${name} among ${tools}`);
    for (const name of asks) assert.equal(tools.includes(name), this.era === "legacy", `${name} among ${tools}`);
  }

  async echoes(message) {
    assert.equal(await this.text("echo", { message }), `Echo: ${message}`);
  }

  async reportsProgress() {
    const notes = [];
    const args = { duration: 0.8, steps: 4 };
    const text = await this.text(LONG, args, { onprogress: (note) => notes.push(note) });
    assert.equal(text, "Long running operation completed. Duration: 0.8 seconds, Steps: 4.");
    assert.deepEqual(notes, [1, 2, 3, 4].map((progress) => ({ progress, total: 4 })));
  }

  async isCancelled() {
    const abort = new AbortController();
    const noted = withResolvers();
    const options = { signal: abort.signal, onprogress: noted.resolve };
    const call = this.client.call(LONG, { duration: 60, steps: 600 }, options);
    call.catch(() => {}); // its end is looked at below
    await within(5, "a progress note", noted.promise);
    const post = this.posts.at(-1);
    abort.abort("enough");
    await assert.rejects(within(2, "a cancelled call", call), /enough/);
    const { answer, error } = await within(2, "the end of the POST of a cancelled call", post.end);
    if (this.era === "legacy") {
      assert.ifError(error);
      assert.deepEqual([answer.id, answer.error?.code], [post.message.id, -32002], "the answer");
    } else {
      assert.equal(error?.name, "AbortError", "the SDK closes its POST");
    }
    await this.echoes("after a cancel");
    await this.reportsProgress();
  }

  async runsBesideOthers() {
    const slow = this.reportsProgress();
    await Promise.all([slow, this.reportsProgress(), ...Array.from({ length: 20 }, (_, i) => this.echoes(`no ${i}`))]);
  }

  answers = {
    "sampling/createMessage": async ({ params }) => ({
      role: "assistant",
      model: "checks",
      content: { type: "text", text: `said of ${params.messages[0].content.text}` },
    }),
    "elicitation/create": async () => ({ action: "decline" }),
    "roots/list": async () => ({ roots: ROOTS }),
  };

  async isAsked() {
    const sampled = await this.text("trigger-sampling-request", { prompt: "towers", maxTokens: 9 });
    assert.match(sampled, /said of .*towers/);
    assert.match(await this.text("trigger-elicitation-request", {}), /declined/);
    assert.match(await this.text("get-roots-list", {}), /file:\/\/\/home\/checks/);
  }

  logged = () => {};

  // The server logs at once, and then every 5 s: outside of calls, so on the GET stream.
  async listens() {
    let logs = 0;
    const heard = withResolvers();
    this.logged = () => (logs += 1) === 3 && heard.resolve();
    await this.text("toggle-simulated-logging", {});
    await within(20, "logs outside of calls", heard.promise);
    await this.text("toggle-simulated-logging", {});
  }

  async text(tool, args, options) {
    const result = await within(10, tool, this.client.call(tool, args, options));
    return result.content[0].text;
  }
}

// `Promise.withResolvers` is not in Node 20.
function withResolvers() {
  const all = {};
  all.promise = new Promise((resolve, reject) => Object.assign(all, { resolve, reject }));
  return all;
}
