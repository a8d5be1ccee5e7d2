"""Runs examples/frameworks/llamaindex_agent.py with a model that follows the script."""

import asyncio

import script
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llamaindex_agent import ask


def follow(messages, tools=None, **_):
    assert "run_python" in {tool.metadata.name for tool in tools}
    results = [message.content for message in messages if message.role == MessageRole.TOOL]
    arguments = script.call(results)
    if arguments is None:
        return ChatMessage(role="assistant", content=script.answer(results))
    call = ToolCallBlock(
        tool_call_id=f"call-{len(results)}", tool_name="run_python", tool_kwargs=arguments
    )
    return ChatMessage(role="assistant", blocks=[call])


model = MockFunctionCallingLLM(response_generator=follow, is_chat_model=True)
script.check(asyncio.run(ask(model, script.QUESTION)))
