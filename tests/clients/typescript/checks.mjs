// What a TypeScript client sees of the example `everything`, whichever SDK and era it speaks.
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { recording } from "../recording.mjs";
import { within } from "../within.mjs";

const VERSIONS = { legacy: "2025-11-25", modern: "2026-07-28" };
const LONG = 20_000; // ms, longer than any wait here

// `connect(url, { era, fetch, onerror, elicit })` gives { version, tools(), call(name, arguments, options), close() }.
// What the SDK is to ask its user goes to `elicit(params, signal)`.
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
  cancels = 0;

  constructor(url, era) {
    this.url = new URL(url);
    this.era = era;
  }

  async run(connect) {
    const { era, fetch } = this;
    const onerror = (error) => this.errors.push(error);
    const elicit = (params, signal) => this.user(params, signal);
    this.client = await within(5, "connect", connect(this.url, { era, fetch, onerror, elicit }));
    assert.equal(this.client.version, VERSIONS[era], "the negotiated version");
    const tools = (await within(5, "tools/list", this.client.tools())).map((tool) => tool.name);
    const missing = ["echo", "fail", "panic", "slow", "test_elicitation"].filter((tool) => !tools.includes(tool));
    assert.deepEqual(missing, [], `tools of ${tools}`);
    await this.echoes("hello");
    await this.reportsProgress();
    await this.fails();
    await this.isCancelled("before its response has begun", { ms: LONG });
    await this.isCancelled("while its response streams", { ms: LONG, steps: LONG / 50 });
    await this.isAsked("Who are you?", { action: "accept", content: { username: "Ada", email: "ada@example.org" } });
    await this.isAsked("And now?", { action: "decline" });
    await this.isCancelledWhileAsked();

    await within(5, "close", this.client.close());
    // What comes for a cancelled request finds nobody who waits for it: the SDKs say so, and go on. The answer always
    // does, a note of its progress may.
    const late = this.errors.filter((error) => error.message.includes("unknown message ID"));
    assert.equal(late.length, era === "legacy" ? this.cancels : 0, "answers that nobody waits for");
    const others = this.errors.filter((error) => !late.includes(error) && !error.message.includes("unknown token"));
    assert.deepEqual(others.map(String), [], "errors of the SDK");
  }

  async echoes(text) {
    assert.equal(await this.text("echo", { text }), text);
  }

  async reportsProgress() {
    const notes = [];
    const text = await this.text("slow", { ms: 400, steps: 4 }, { onprogress: (note) => notes.push(note) });
    assert.equal(text, "slept 400 ms");
    const grows = notes.every(({ progress, total }, i) => total === 4 && progress > (notes[i - 1]?.progress ?? 0));
    assert.ok(notes.length >= 3 && grows, `progress notes: ${JSON.stringify(notes)}`);
  }

  async fails() {
    const result = await within(5, "fail", this.client.call("fail", {}));
    assert.equal(result.isError, true, JSON.stringify(result));
    await assert.rejects(within(5, "panic", this.client.call("panic", {})), { code: -32603 });
    await assert.rejects(within(5, "an unknown tool", this.client.call("nosuch", {})), { code: -32602 });
    await this.echoes("after failures");
  }

  async isCancelled(when, args) {
    const options = {};
    const noted = args.steps && new Promise((resolve) => (options.onprogress = resolve));
    const running = this.start("slow", args, options);
    await within(5, "a progress note", noted);
    await this.debugShows("a parked call", ({ parked }) => parked === 1);
    assert.equal(this.posts.at(-1).response !== undefined, Boolean(args.steps), "the response has begun");
    await this.endsParked(`cancelled ${when}`, running);
  }

  async isAsked(message, answer) {
    const questions = [];
    this.user = async (params) => {
      questions.push(params);
      return answer;
    };
    const before = this.posts.length;
    assert.deepEqual(JSON.parse(await this.text("test_elicitation", { message })), answer);
    const asked = questions.map((params) => [params.message, params.requestedSchema.required]);
    assert.deepEqual(asked, [[message, ["username", "email"]]]);

    const [call, reply, ...others] = this.posts.slice(before).map((post) => post.message);
    assert.deepEqual(others, []);
    if (this.era === "legacy") {
      assert.deepEqual(reply.result, answer, "the response to the question");
      assert.equal((await within(2, "the end of its POST", this.posts.at(-1).end)).status, 202);
    } else {
      assert.deepEqual(reply.params.inputResponses, { user: answer }, "what the second call brings");
      assert.notEqual(reply.id, call.id);
    }
    await this.echoes("after a question");
  }

  async isCancelledWhileAsked() {
    // The call of a modern client ends with its handler, which has to heed its signal (`runInputRequiredDriver` waits).
    const asked = new Promise((resolve) => {
      this.user = (_, signal) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
          resolve(signal);
        });
    });
    const running = this.start("test_elicitation", { message: "Who is there?" });
    const signal = await within(5, "a question", asked);
    const how = "cancelled while its user is asked";
    if (this.era === "legacy") {
      await this.debugShows("a parked call", ({ parked }) => parked === 1);
      await this.endsParked(how, running);
      assert.ok(signal.aborted, "the server takes its question back");
    } else {
      // The question was the answer, so nothing waits on the server.
      await this.debugShows("no parked call", ({ parked }) => parked === 0);
      const posted = this.posts.length;
      running.abort("enough");
      await assert.rejects(within(2, `a call ${how}`, running.call), /enough/);
      assert.ok(signal.aborted, "the user is told");
      await this.echoes(`after one ${how}`);
      assert.equal(this.posts.length, posted + 1, "the echo is all that was posted");
      await this.debugShows("no parked call", ({ parked }) => parked === 0);
    }
  }

  start(tool, args, options = {}) {
    const abort = new AbortController();
    const call = this.client.call(tool, args, { ...options, signal: abort.signal });
    call.catch(() => {}); // its end is looked at later
    return { abort: (reason) => abort.abort(reason), call };
  }

  // The last POST is the call.
  async endsParked(how, { abort, call }) {
    const post = this.posts.at(-1);
    assert.equal(post.message.method, "tools/call");
    abort("enough");
    await assert.rejects(within(2, `a call ${how}`, call), /enough/);
    this.cancels += 1;
    const outcome = this.era === "legacy" ? "cancelled" : "disconnected";
    const counts = { cancelled: 0, disconnected: 0, shut_down: 0, timed_out: 0, [outcome]: this.cancels };
    await this.debugShows(`one more ${outcome}, for a call ${how}`, ({ parked, outcomes, handlers }) =>
      parked === 0 && handlers.cancelled === this.cancels && isDeepStrictEqual({ ...outcomes, ...counts }, outcomes));

    const cancels = this.posts.filter(({ message }) => message.method === "notifications/cancelled");
    const end = await within(2, `the end of a POST ${how}`, post.end);
    if (this.era === "legacy") {
      assert.equal(cancels.length, this.cancels, "notifications/cancelled posted");
      assert.equal(cancels.at(-1).message.params.requestId, post.message.id);
      assert.equal((await within(2, "the answer to the cancel", cancels.at(-1).end)).status, 202);
      // The SDK left this POST open. The server has answered and ended it.
      const { status, answer, error } = end;
      assert.ifError(error);
      assert.deepEqual([status, answer.id, answer.error?.code], [200, post.message.id, -32002], "the answer");
    } else {
      assert.equal(cancels.length, 0, "notifications/cancelled posted");
      assert.equal(end.error?.name, "AbortError", "the SDK closes its POST");
    }
    await this.echoes(`after one ${how}`);
  }

  async text(tool, args, options) {
    const result = await within(5, tool, this.client.call(tool, args, options));
    return result.content[0].text;
  }

  // Polls: nobody tells a client what happens on the server.
  async debugShows(what, holds) {
    const deadline = Date.now() + 2_000;
    for (;;) {
      const page = await (await fetch(new URL("/debug", this.url), { signal: AbortSignal.timeout(2_000) })).json();
      if (holds(page)) return page;
      assert.ok(Date.now() < deadline, `${what}: not within 2 s; last seen: ${JSON.stringify(page)}`);
      await sleep(20);
    }
  }
}
