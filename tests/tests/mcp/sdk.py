"""Drives an MCP server, a URL or a command, with the official SDK, which validates its answers."""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)


def text(result):
    return "".join(item.text for item in result.content if item.type == "text")


async def tour(client):
    tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {
        "run_python",
        "run_command",
        "write_file",
        "read_file",
        "list_files",
        "reset_session",
        "end_session",
        "list_sessions",
    } <= tools, tools

    first = await client.call_tool("run_python", {"code": "x = 41"})
    assert not first.is_error, first
    session = first.structured_content["session"]

    seen = []

    async def progress(done, total, message):
        seen.append((done, message))

    code = "import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.2)\nx + 1"
    second = await client.call_tool(
        "run_python", {"code": code, "session": session}, progress_callback=progress
    )
    assert second.structured_content["result"] == {"type": "int", "repr": "42"}, second
    assert second.structured_content["stdout"] == "0\n1\n2\n", second
    # What comes last is in the answer alone.
    assert seen and "0\n1\n2\n".startswith("".join(message or "" for _, message in seen)), seen

    code = f"""
import base64
class Figure:
    def _repr_png_(self): return base64.b64decode({PNG!r})
display(Figure())
open('a b.csv', 'w').write('1,2')
"""
    third = await client.call_tool("run_python", {"code": code, "session": session})
    images = [item for item in third.content if item.type == "image"]
    assert [image.data for image in images] == [PNG], third
    links = [item for item in third.content if item.type == "resource_link"]
    read = await client.read_resource(links[0].uri)
    assert read.contents[0].text == "1,2", read
    listed = await client.list_resources()
    assert str(links[0].uri) in {str(resource.uri) for resource in listed.resources}, listed
    templates = await client.list_resource_templates()
    assert len(templates.resource_templates) == 1

    error = await client.call_tool("run_python", {"code": "1 / 0", "session": session})
    assert error.is_error and "ZeroDivisionError" in text(error), error
    refused = await client.call_tool("run_python", {"code": "1", "session": "none"})
    assert refused.is_error and "unknown_session" in text(refused), refused
    wrong = await client.call_tool("run_python", {"kode": "1"})
    assert wrong.is_error and "kode" in text(wrong), wrong
    try:
        await client.call_tool("no_such_tool", {})
    except MCPError as error:
        assert error.error.code == -32602, error
    else:
        raise AssertionError("a tool that there is not was called")

    for name, arguments in [
        ("run_command", {"command": "cat", "stdin": "in", "session": session}),
        ("write_file", {"path": "c", "text": "c", "session": session}),
        ("read_file", {"path": "c", "session": session}),
        ("list_files", {"session": session}),
        ("list_sessions", {}),
        ("reset_session", {"session": session}),
        ("end_session", {"session": session}),
    ]:
        result = await client.call_tool(name, arguments)
        assert not result.is_error, (name, result)


async def cancelled(client):
    """Code ends when its caller gives up, and its session is free."""
    first = await client.call_tool("run_python", {"code": "pass"})
    session = first.structured_content["session"]
    code = "open('began', 'w').close()\nwhile True: pass"
    for progress_callback in (None, lambda *_: asyncio.sleep(0)):
        running = asyncio.create_task(
            client.call_tool(
                "run_python",
                {"code": code, "session": session},
                progress_callback=progress_callback,
            )
        )
        while True:
            listed = await client.call_tool("list_files", {"session": session})
            if any(file["path"] == "began" for file in listed.structured_content["files"]):
                break
        running.cancel()
        try:
            await running
        except asyncio.CancelledError:
            pass
        # It waits behind the code, which would run for 30 s.
        arguments = {"code": "import os; os.remove('began')", "session": session}
        after = await asyncio.wait_for(client.call_tool("run_python", arguments), 15)
        assert not after.is_error, after


async def main():
    mode, *command = sys.argv[1:]
    token = os.environ.get("VIVARIUM_TOKEN")
    if len(command) == 1:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        client_of_http = httpx2.AsyncClient(headers=headers, timeout=60, follow_redirects=True)
        server = streamable_http_client(command[0], http_client=client_of_http)
    else:
        passed = ("PATH", "HOME", "VIVARIUM_TOKEN")
        env = {name: os.environ[name] for name in passed if name in os.environ}
        server = StdioServerParameters(command=command[0], args=command[1:], env=env)
    async with Client(server, mode=mode) as client:
        await tour(client)
        await cancelled(client)
        print(json.dumps({"version": client.protocol_version}))


asyncio.run(main())
