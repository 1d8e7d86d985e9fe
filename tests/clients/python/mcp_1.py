from contextlib import asynccontextmanager

import httpx
import mcp
from checks import check
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CancelledNotification, CancelledNotificationParams, ClientNotification, ElicitResult


class Client:
    failure = mcp.McpError
    # Its `_receive_loop` awaits the callback (mcp/shared/session.py): until that returns it reads neither an answer nor
    # a word that takes the question back.
    is_deaf_while_asking = True

    def __init__(self, session, version):
        self.session, self.version = session, version

    async def tools(self):
        return [tool.name for tool in (await self.session.list_tools()).tools]

    async def call(self, tool, arguments, on_progress=None):
        return await self.session.call_tool(tool, arguments, progress_callback=on_progress)

    # This SDK sends nothing when the scope of a call is cancelled: the application says so itself.
    async def cancel(self, request_id):
        params = CancelledNotificationParams(requestId=request_id, reason="enough")
        await self.session.send_notification(ClientNotification(CancelledNotification(params=params)))


@asynccontextmanager
async def connect(url, _era, http_client, elicit):
    # The callback declares the capability.
    async def callback(_context, params):
        action, content = await elicit(params)
        return ElicitResult(action=action, content=content)

    async with streamable_http_client(url, http_client=http_client) as (read, write, _session_id):
        async with mcp.ClientSession(read, write, elicitation_callback=callback) as session:
            yield Client(session, (await session.initialize()).protocolVersion)


check("python-mcp-1", httpx, connect)
