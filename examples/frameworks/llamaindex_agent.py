"""An agent of LlamaIndex that runs Python in Vivarium.

pip install llama-index-llms-openai
python llamaindex_agent.py gpt-5 "What is the 1000th prime?"
"""

import asyncio
import os
import sys

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec

URL = os.environ.get("VIVARIUM_URL", "http://127.0.0.1:8470") + "/mcp"
TOKEN = os.environ.get("VIVARIUM_TOKEN")
HEADERS = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}


async def ask(model, question):
    client = BasicMCPClient(URL, headers=HEADERS)
    tools = await McpToolSpec(client).to_tool_list_async()
    return str(await FunctionAgent(llm=model, tools=tools).run(question))


if __name__ == "__main__":
    from llama_index.llms.openai import OpenAI

    print(asyncio.run(ask(OpenAI(model=sys.argv[1]), sys.argv[2])))
