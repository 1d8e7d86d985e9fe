from contextlib import asynccontextmanager

import httpx2
import mcp
from checks import check
from mcp.client.streamable_http import streamable_http_client


class Client:
    failure = mcp.MCPError

    def __init__(self, client):
        self.client, self.version = client, client.protocol_version

    async def tools(self):
        return [tool.name for tool in (await self.client.list_tools()).tools]

    async def call(self, tool, arguments, on_progress=None):
        return await self.client.call_tool(tool, arguments, progress_callback=on_progress)


@asynccontextmanager
async def connect(url, era, http_client):
    transport = streamable_http_client(url, http_client=http_client)
    async with mcp.Client(transport, mode="legacy" if era == "legacy" else "auto") as client:
        yield Client(client)


check("python-mcp-2", httpx2, connect)
