"""Runs examples/frameworks/langchain_agent.py with a model that follows the script."""

import asyncio

import script
from langchain_agent import ask
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        assert "run_python" in {tool.name for tool in tools}
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        results = [message.text for message in messages if isinstance(message, ToolMessage)]
        arguments = script.call(results)
        if arguments is None:
            message = AIMessage(script.answer(results))
        else:
            call = {"name": "run_python", "args": arguments, "id": f"call-{len(results)}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


script.check(asyncio.run(ask(Scripted(), script.QUESTION)))
