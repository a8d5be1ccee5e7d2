"""An agent of the OpenAI Agents SDK that runs Python in Vivarium.

python openai_agents_agent.py gpt-5 "What is the 1000th prime?"
"""

import asyncio
import os
import sys

from agents import Agent, Runner
from agents.mcp import MCPServerStreamableHttp

URL = os.environ.get("VIVARIUM_URL", "http://127.0.0.1:8470") + "/mcp"
TOKEN = os.environ.get("VIVARIUM_TOKEN")
HEADERS = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}


async def ask(model, question):
    # Code may take longer than the 5 s that the SDK waits for a tool.
    async with MCPServerStreamableHttp(
        {"url": URL, "headers": HEADERS, "timeout": 60}, client_session_timeout_seconds=60
    ) as vivarium:
        agent = Agent("analyst", model=model, mcp_servers=[vivarium])
        return (await Runner.run(agent, question)).final_output


if __name__ == "__main__":
    print(asyncio.run(ask(*sys.argv[1:])))
