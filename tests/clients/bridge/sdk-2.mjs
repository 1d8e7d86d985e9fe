import { createRequire } from "node:module";
import { check } from "./checks.mjs";

const require = createRequire(import.meta.url); // an import would not look into NODE_PATH
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

await check("typescript-sdk-2 in front of stdio_bridge", async (url, { era, fetch, onerror, onlog, answers }) => {
  const capabilities = { elicitation: {}, roots: {}, sampling: {} };
  const versionNegotiation = { mode: era === "legacy" ? "legacy" : "auto" };
  const client = new Client({ name: "checks", version: "0" }, { capabilities, versionNegotiation });
  for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(method, answer);
  client.setNotificationHandler("notifications/message", onlog);
  const transport = new StreamableHTTPClientTransport(url, { fetch });
  client.onerror = onerror;
  await client.connect(transport);
  return {
    version: client.getNegotiatedProtocolVersion(),
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, options),
    close: () => transport.terminateSession().then(() => client.close()),
  };
});
