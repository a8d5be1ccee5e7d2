"""Runs examples/frameworks/pydantic_ai_agent.py with a model that follows the script."""

import asyncio

import script
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai_agent import ask


def follow(messages, info):
    assert "run_python" in {tool.name for tool in info.function_tools}
    parts = [part for message in messages for part in message.parts]
    results = [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
    arguments = script.call(results)
    if arguments is None:
        return ModelResponse(parts=[TextPart(script.answer(results))])
    return ModelResponse(parts=[ToolCallPart("run_python", arguments)])


script.check(asyncio.run(ask(FunctionModel(follow), script.QUESTION)))
