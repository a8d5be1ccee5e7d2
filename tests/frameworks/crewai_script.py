"""Runs examples/frameworks/crewai_agent.py with a model that follows the script."""

import json

import script
from crewai import BaseLLM
from crewai_agent import ask


class Scripted(BaseLLM):
    def supports_function_calling(self):
        return False

    def call(self, messages, **_):
        text = "\n".join(str(message["content"]) for message in messages)
        # The first is in the description of the format.
        results = text.split("\nObservation:")[2:]
        code = script.code(results)
        if code is None:
            return f"Thought: I now know the final answer\nFinal Answer: {script.answer(results)}"
        arguments = json.dumps({"code": code})
        return f"Thought: I run code\nAction: run_python\nAction Input: {arguments}"


script.check(ask(Scripted(model="scripted"), script.QUESTION))
