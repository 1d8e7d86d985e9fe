import { createRequire } from "node:module";
import { check } from "./checks.mjs";

const require = createRequire(import.meta.url); // an import would not look into NODE_PATH
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");

await check("typescript-sdk-2", async (url, { era, fetch, onerror, elicit }) => {
  const mode = era === "legacy" ? "legacy" : "auto";
  const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } };
  const client = new Client({ name: "checks", version: "0" }, options);
  client.setRequestHandler("elicitation/create", ({ params }, { mcpReq }) => elicit(params, mcpReq.signal));
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
