"""A server of MCP, by the official SDK. Argument: the revisions that it knows, `new` or `old`."""

import asyncio
import json
import sys

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image

server = MCPServer("judge", log_level="WARNING")


@server.tool()
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(name="say-it", structured_output=False)
def say_it(text: str) -> str:
    """Repeats a text."""
    return text


@server.tool(structured_output=False)
def headers(context: Context) -> str:
    """The headers of the request."""
    return json.dumps(dict(context.request_context.request.headers))


@server.tool()
def fail() -> int:
    raise ValueError("it is broken")


@server.tool(structured_output=False)
def picture() -> Image:
    return Image(data=b"\x89PNG", format="png")


@server.tool(structured_output=False)
async def slow() -> str:
    await asyncio.sleep(600)
    return "late"


@server.tool(structured_output=False)
def large() -> str:
    return "x" * (600 << 10)


def older(app):
    """A server that knows no revision without a handshake."""

    async def answer(scope, receive, send):
        said = dict(scope.get("headers", [])).get(b"mcp-protocol-version")
        if said == b"2026-07-28":
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"Bad Request: Unsupported version"})
        else:
            await app(scope, receive, send)

    return answer


app = server.streamable_http_app()
if sys.argv[1] == "old":
    app = older(app)
config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="on")


class Told(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


Told(config).run()
