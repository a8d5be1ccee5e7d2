"""Runs examples/frameworks/adk_agent.py with a model that follows the script."""

import asyncio

import script
from adk_agent import ask
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts]
        results = [part.text for part in parts if part.text and "```tool_output" in part.text]
        code = script.code(results)
        text = f"```python\n{code}\n```" if code else script.answer(results)
        content = types.Content(role="model", parts=[types.Part(text=text)])
        yield LlmResponse(content=content)


script.check(asyncio.run(ask(Scripted(model="scripted"), script.QUESTION)))
