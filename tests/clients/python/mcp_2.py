from contextlib import asynccontextmanager

import httpx2
import mcp
from checks import check
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult


class Client:
    failure = mcp.MCPError
    is_deaf_while_asking = False

    def __init__(self, client):
        self.client, self.version = client, client.protocol_version

    async def tools(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, tool, arguments, on_progress=None):
        return await self.client.call_tool(tool, arguments, progress_callback=on_progress)


@asynccontextmanager
async def connect(url, era, http_client, elicit):
    # The callback declares the capability.
    async def callback(_context, params):
        action, content = await elicit(params)
        return ElicitResult(action=action, content=content)

    transport = streamable_http_client(url, http_client=http_client)
    mode = "legacy" if era == "legacy" else "auto"
    async with mcp.Client(transport, mode=mode, elicitation_callback=callback) as client:
        yield Client(client)


check("python-mcp-2", httpx2, connect)
