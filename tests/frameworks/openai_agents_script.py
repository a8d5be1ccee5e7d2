"""Runs examples/frameworks/openai_agents_agent.py with a model that follows the script."""

import asyncio

import script
from agents import set_tracing_disabled
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai_agents_agent import ask


def follow(call):
    assert "run_python" in {tool.name for tool in call.tools}
    items = [] if isinstance(call.input, str) else call.input
    results = [str(item["output"]) for item in items if item.get("type") == "function_call_output"]
    arguments = script.call(results)
    if arguments is None:
        return [assistant_message(script.answer(results))]
    return [function_call("run_python", arguments, call_id=f"call-{len(results)}")]


set_tracing_disabled(True)
model = ScriptedModel([ModelStep(responder=follow)] * 3)
script.check(asyncio.run(ask(model, script.QUESTION)))
