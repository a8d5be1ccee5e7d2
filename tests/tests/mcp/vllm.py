"""Does what vLLM does with `--tool-server`: lists the server, then calls its tool `python`."""

import asyncio
import sys

from mcp import ClientSession
from mcp.client.sse import sse_client


async def main(url):
    async with sse_client(url=url) as streams, ClientSession(*streams) as session:
        server = await session.initialize()
        tools = (await session.list_tools()).tools
        assert server.server_info.name == "python", server
        assert server.instructions, server
        assert [tool.name for tool in tools] == ["python"], tools

    async with (
        sse_client(url=url, headers={"x-session-id": "r1"}) as streams,
        ClientSession(*streams) as session,
    ):
        await session.initialize()

        async def python(code):
            return (await session.call_tool("python", {"code": code})).content[0].text

        assert await python("x = 41") == ""
        assert await python("print('out')\nx + 1") == "out\n[result] 42"
        assert "ZeroDivisionError" in await python("1 / 0")
        assert await python("x") == "[result] 41"

    async with sse_client(url=url) as streams, ClientSession(*streams) as session:
        await session.initialize()
        other = await session.call_tool("python", {"code": "x"})
        assert other.is_error and "NameError" in other.content[0].text, other
    print("well")


asyncio.run(main(sys.argv[1]))
