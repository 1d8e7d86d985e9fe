// What a page in a browser can do with an MCP server of another origin. The query says as whom (`as`), and where the
// servers are; what is found goes to `report`, a check at a time.
"use strict";

const query = Object.fromEntries(new URLSearchParams(location.search));
const MODERN = "2026-07-28";

// The little of a client that is needed.

function post(message, headers = {}, { url = query.server, ...options } = {}) {
  const fixed = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const body = typeof message === "string" ? message : JSON.stringify({ jsonrpc: "2.0", ...message });
  return fetch(url, { method: "POST", headers: { ...fixed, ...headers }, body, ...options });
}

/** A client of a legacy version. */
async function initialized(url = query.server, extra = {}) {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "page", version: "1" } };
  const response = await post({ id: "initialize", method: "initialize", params }, extra, { url });
  const session = response.headers.get("Mcp-Session-Id");
  same((await response.json()).result.protocolVersion, "2025-11-25");
  const headers = { "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25", ...extra };
  same((await post({ method: "notifications/initialized" }, headers, { url })).status, 202);
  return {
    session,
    headers,
    call: (id, name, args, progressToken, options) => {
      const params = { name, arguments: args, _meta: { progressToken } };
      return post({ id, method: "tools/call", params }, headers, { url, ...options });
    },
    cancel: async (requestId) => {
      const params = { requestId, reason: "the user changed their mind" };
      same((await post({ method: "notifications/cancelled", params }, headers, { url })).status, 202);
    },
  };
}

/** The headers and the message of a modern request. */
function modern(id, method, params = {}, progressToken = undefined) {
  const headers = { "MCP-Protocol-Version": MODERN, "Mcp-Method": method };
  if (params.name) headers["Mcp-Name"] = params.name;
  if (params.name === "count") headers["Mcp-Param-Label"] = params.arguments.label;
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "page", version: "1" },
    progressToken,
  };
  return [{ id, method, params: { ...params, _meta } }, headers];
}

const modernCall = (id, name, args, progressToken, options) =>
  post(...modern(id, "tools/call", { name, arguments: args }, progressToken), options);

/** The events of a stream, each as soon as it is there. */
async function* events(response) {
  same(response.headers.get("Content-Type"), "text/event-stream");
  let text = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const parts = (text + chunk).split("\n\n");
    text = parts.pop();
    for (const part of parts.filter((part) => part.startsWith("data: "))) yield JSON.parse(part.slice("data: ".length));
  }
  same(text, "");
}

async function all(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}

// The little of a test runner that is needed.

function ensure(good, what) {
  if (!good) throw new Error(what);
}

function same(one, other) {
  ensure(JSON.stringify(one) === JSON.stringify(other), `${JSON.stringify(one)} is not ${JSON.stringify(other)}`);
}

const seconds = (count) => new Promise((resolve) => setTimeout(resolve, count * 1000));

const tell = (report) =>
  fetch(query.report, { method: "POST", mode: "no-cors", body: JSON.stringify({ page: query.as, ...report }) });

async function check(name, body) {
  const began = performance.now();
  let failure = null;
  const late = seconds(10).then(() => Promise.reject(new Error("not done within 10 s")));
  await Promise.race([body(), late]).catch((error) => (failure = `${error.stack ?? error}`));
  late.catch(() => {});
  await tell({ name, failure, ms: Math.round(performance.now() - began) });
}

async function rejects(promise) {
  const error = await promise.then(
    (response) => new Error(`answered with status ${response.status}`),
    (error) => error,
  );
  ensure(error instanceof TypeError, `${error}`);
}

async function isError(response, status, code) {
  same([response.status, response.headers.get("Content-Type")], [status, "application/json"]);
  const { jsonrpc, error } = await response.json();
  same([jsonrpc, error.code, typeof error.message], ["2.0", code, "string"]);
  return error;
}

/** Waits for what has become of a count. */
async function becomes(label, state) {
  let now;
  for (const deadline = performance.now() + 5000; performance.now() < deadline; await seconds(0.05)) {
    now = (await (await modernCall("state", "state", { label })).json()).result.content[0].text;
    if (now === state) return;
  }
  throw new Error(`${label} is ${now}, not ${state}`);
}

/** The first progress comes while the call is at work, the answer last; the stream then ends by itself. */
async function progresses(label, response) {
  const stream = events(response);
  const messages = [(await stream.next()).value];
  await becomes(label, "counting");
  messages.push(...(await all(stream)));
  const answer = messages.pop();
  same(messages.map(({ method }) => method), Array(4).fill("notifications/progress"));
  same(messages.map(({ params }) => params), [1, 2, 3, 4].map((progress) => ({ progressToken: "p", progress, total: 4 })));
  same([answer.id, answer.result.content[0].text], [2, "counted to 4"]);
}

const aWhile = (label) => ({ label, to: 600, every: 100 });

// The pages.

const PAGES = {
  /** Its origin is allowed. */
  async guest() {
    await legacy();
    await modernEra();
    await refusals();
    await guarded();
  },

  /** A frame of the guest's, with a call of each era in progress. */
  async frame() {
    const client = await initialized();
    client.call(1, "count", aWhile("frame, legacy"));
    modernCall(1, "count", aWhile("frame, modern"));
  },

  /** Its origin is not allowed. */
  async stranger() {
    const call = { id: 1, method: "tools/call", params: { name: "count", arguments: aWhile("stranger") } };
    await check("a POST is not even sent, because no preflight permits it", () => rejects(post(call)));
    await check("one that needs no preflight cannot be read", () =>
      rejects(post(call, { "Content-Type": "text/plain" })));
    await check("neither can a GET", () => rejects(fetch(query.server)));
    await check("what is fetched without CORS is opaque", async () => {
      const response = await post(call, { "Content-Type": "text/plain" }, { mode: "no-cors" });
      same([response.type, response.status, await response.text()], ["opaque", 0, ""]);
    });
  },
};

async function legacy() {
  let client;
  await check("initialize: the session id can be read", async () => {
    client = await initialized();
    ensure(client.session?.startsWith("mcpl-"), `the session is ${client.session}`);
  });
  await check("a call is answered", async () => {
    const { id, result } = await (await client.call("a", "count", { label: "a", to: 1, every: 1 })).json();
    same([id, result.content[0].text], ["a", "counted to 1"]);
  });
  await check("progress is read event by event", async () =>
    progresses("b", await client.call(2, "count", { label: "b", to: 4, every: 200 }, "p")));
  await check("a cancel ends a call that is parked", async () => {
    const parked = client.call(3, "count", aWhile("c"));
    await becomes("c", "counting");
    await client.cancel(3);
    await isError(await parked, 200, -32002);
    await becomes("c", "Cancelled");
  });
  await check("a cancel ends a call whose stream has begun", async () => {
    const stream = events(await client.call(4, "count", aWhile("d"), "p"));
    same([(await stream.next()).value.params.progress, (await stream.next()).value.params.progress], [1, 2]);
    await client.cancel(4);
    const last = (await all(stream)).at(-1);
    same([last.id, last.error.code], [4, -32002]);
    await becomes("d", "Cancelled");
  });
  await check("a cancel ends the call of its own session only", async () => {
    const other = await initialized();
    const [mine, others] = [client, other].map((each, n) => each.call(1, "count", aWhile(`e${n}`)));
    await Promise.all([becomes("e0", "counting"), becomes("e1", "counting")]);
    await client.cancel(1);
    await isError(await mine, 200, -32002);
    await becomes("e1", "counting");
    await other.cancel(1);
    await isError(await others, 200, -32002);
  });
  await check("a cancel gets through beside five parked calls", async () => {
    const parked = [10, 11, 12, 13, 14].map((id) => client.call(id, "count", aWhile(`f${id}`)));
    await Promise.all([10, 11, 12, 13, 14].map((id) => becomes(`f${id}`, "counting")));
    for (const id of [10, 11, 12, 13, 14]) await client.cancel(id);
    for (const each of parked) await isError(await each, 200, -32002);
  });
  await check("a call that the page aborts goes on, and can still be cancelled", async () => {
    const aborting = new AbortController();
    const parked = client.call(5, "count", aWhile("g"), undefined, { signal: aborting.signal });
    await becomes("g", "counting");
    aborting.abort();
    same(await parked.catch(({ name }) => name), "AbortError");
    await seconds(0.5);
    await becomes("g", "counting");
    await client.cancel(5);
    await becomes("g", "Cancelled");
  });
}

async function modernEra() {
  await check("server/discover: there is no session", async () => {
    const response = await post(...modern(1, "server/discover"));
    same(response.headers.get("Mcp-Session-Id"), null);
    ensure((await response.json()).result.supportedVersions.includes(MODERN), "the version is not supported");
  });
  await check("progress is read event by event, with Mcp-Param-* sent", async () =>
    progresses("h", await modernCall(2, "count", { label: "h", to: 4, every: 200 }, "p")));
  await check("a call that the page aborts is cancelled, parked …", async () => {
    const aborting = new AbortController();
    const parked = modernCall(3, "count", aWhile("i"), undefined, { signal: aborting.signal });
    await becomes("i", "counting");
    aborting.abort();
    same(await parked.catch(({ name }) => name), "AbortError");
    await becomes("i", "Disconnected");
  });
  await check("… or as a stream", async () => {
    const aborting = new AbortController();
    const stream = events(await modernCall(4, "count", aWhile("j"), "p", { signal: aborting.signal }));
    same((await stream.next()).value.params.progress, 1);
    aborting.abort();
    same(await stream.next().catch(({ name }) => name), "AbortError");
    await becomes("j", "Disconnected");
  });
  await check("a page that is closed cancels its modern calls, and not its legacy ones", async () => {
    const frame = document.createElement("iframe");
    frame.src = `${location.pathname}?${new URLSearchParams({ ...query, as: "frame" })}`;
    document.documentElement.append(frame);
    await Promise.all([becomes("frame, legacy", "counting"), becomes("frame, modern", "counting")]);
    frame.remove();
    await becomes("frame, modern", "Disconnected");
    await becomes("frame, legacy", "counting");
  });
}

async function refusals() {
  const ping = { id: 1, method: "ping" };
  const refused = (what, status, code, ask) =>
    check(`${status} can be read: ${what}`, async () => {
      const error = await isError(await ask(), status, code);
      if (code === -32022) ensure(error.data.supported.includes(MODERN), "the supported versions are missing");
    });
  await refused("no JSON", 400, -32700, () => post("{"));
  await refused("an unknown version", 400, -32600, () => post(ping, { "MCP-Protocol-Version": "1900-01-01" }));
  await refused("a version that is not served", 400, -32022, () => {
    const [message, headers] = modern(1, "server/discover");
    message.params._meta["io.modelcontextprotocol/protocolVersion"] = "2099-01-01";
    return post(message, { ...headers, "MCP-Protocol-Version": "2099-01-01" });
  });
  for (const name of ["Mcp-Name", "Mcp-Param-Label"]) {
    await refused(`another ${name}`, 400, -32020, () => {
      const [message, headers] = modern(1, "tools/call", { name: "count", arguments: aWhile("k") });
      return post(message, { ...headers, [name]: "other" });
    });
  }
  await refused("another host", 403, -32600, () => post(ping, {}, { url: query.rebound }));
  await refused("an unknown method", 404, -32601, () => post(...modern(1, "example/unknown")));
  await check("405 can be read: GET and DELETE", async () => {
    for (const method of ["GET", "DELETE"]) {
      same((await fetch(query.server, { method, headers: { "Mcp-Session-Id": "mcpl-1" } })).status, 405);
    }
  });
  await refused("another Accept", 406, -32600, () => post(ping, { Accept: "text/html" }));
  await refused("more than 4 MiB", 413, -32600, () => post(" ".repeat(4 * 1024 * 1024 + 1)));
  await refused("another Content-Type", 415, -32600, () => post(ping, { "Content-Type": "text/plain" }));
  await check("a header that is not allowed is not sent", () => rejects(post(ping, { "X-Other": "1" })));
}

/** The other server wants a token, and lets its holder do one thing at a time. */
async function guarded() {
  const url = query.guarded;
  await check("401 can be read, with WWW-Authenticate", async () => {
    const response = await post({ id: 1, method: "ping" }, {}, { url });
    same(response.status, 401);
    ensure(response.headers.get("WWW-Authenticate")?.includes("resource_metadata="), "it is not exposed");
  });
  await check("with its token a page gets in; 429 can be read, with Retry-After", async () => {
    const client = await initialized(url, { Authorization: "Bearer secret" });
    const stream = events(await client.call(1, "count", aWhile("l"), "p"));
    await stream.next();
    const response = await client.call(2, "count", aWhile("m"));
    same(response.headers.get("Retry-After"), "1");
    await isError(response, 429, -32600);
    await client.cancel(1);
    same((await all(stream)).at(-1).error.code, -32002);
  });
}

PAGES[query.as]().then(() => query.as === "frame" || tell({ done: true }));
