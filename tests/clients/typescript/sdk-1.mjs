import { createRequire } from "node:module";
import { check } from "./checks.mjs";

const require = createRequire(import.meta.url); // an import would not look into NODE_PATH
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ElicitRequestSchema } = require("@modelcontextprotocol/sdk/types.js");

await check("typescript-sdk-1", async (url, { fetch, onerror, elicit }) => {
  const client = new Client({ name: "checks", version: "0" }, { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler(ElicitRequestSchema, ({ params }, { signal }) => elicit(params, signal));
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
