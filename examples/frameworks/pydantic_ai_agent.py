"""An agent of Pydantic AI that runs Python in Vivarium.

python pydantic_ai_agent.py openai:gpt-5 "What is the 1000th prime?"
"""

import asyncio
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

URL = os.environ.get("VIVARIUM_URL", "http://127.0.0.1:8470") + "/mcp"
TOKEN = os.environ.get("VIVARIUM_TOKEN")
HEADERS = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}


async def ask(model, question):
    async with Agent(model, toolsets=[MCPToolset(URL, headers=HEADERS)]) as agent:
        return (await agent.run(question)).output


if __name__ == "__main__":
    print(asyncio.run(ask(*sys.argv[1:])))
