import { createRequire } from "node:module";
import { check } from "./checks.mjs";

const require = createRequire(import.meta.url); // an import would not look into NODE_PATH
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const types = require("@modelcontextprotocol/sdk/types.js");

const SCHEMAS = {
  "elicitation/create": types.ElicitRequestSchema,
  "roots/list": types.ListRootsRequestSchema,
  "sampling/createMessage": types.CreateMessageRequestSchema,
};

await check("typescript-sdk-1 in front of stdio_bridge", async (url, { fetch, onerror, onlog, answers }) => {
  const capabilities = { elicitation: {}, roots: {}, sampling: {} };
  const client = new Client({ name: "checks", version: "0" }, { capabilities });
  for (const [method, answer] of Object.entries(answers)) client.setRequestHandler(SCHEMAS[method], answer);
  client.setNotificationHandler(types.LoggingMessageNotificationSchema, onlog);
  const transport = new StreamableHTTPClientTransport(url, { fetch });
  client.onerror = onerror;
  await client.connect(transport);
  return {
    version: transport.protocolVersion,
    tools: async () => (await client.listTools()).tools,
    call: (name, args, options) => client.callTool({ name, arguments: args }, undefined, options),
    close: () => transport.terminateSession().then(() => client.close()),
  };
});
