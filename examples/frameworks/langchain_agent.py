"""An agent of LangChain that runs Python in Vivarium.

python langchain_agent.py openai:gpt-5 "What is the 1000th prime?"
"""

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient

URL = os.environ.get("VIVARIUM_URL", "http://127.0.0.1:8470") + "/mcp"
TOKEN = os.environ.get("VIVARIUM_TOKEN")
HEADERS = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}


async def ask(model, question):
    servers = {"vivarium": {"transport": "streamable_http", "url": URL, "headers": HEADERS}}
    tools = await MultiServerMCPClient(servers).get_tools()
    answer = await create_agent(model, tools).ainvoke({"messages": [("user", question)]})
    return answer["messages"][-1].content


if __name__ == "__main__":
    print(asyncio.run(ask(*sys.argv[1:])))
