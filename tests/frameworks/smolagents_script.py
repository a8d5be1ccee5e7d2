"""Runs examples/frameworks/smolagents_agent.py with a model that follows the script."""

import script
from smolagents import ChatMessage, MessageRole, Model
from smolagents_agent import ask


class Scripted(Model):
    def generate(self, messages, **_):
        results = [
            part["text"]
            for message in messages
            if message.role == MessageRole.TOOL_RESPONSE
            for part in message.content
        ]
        code = script.code(results) or f"final_answer({script.answer(results)!r})"
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"<code>\n{code}\n</code>")


script.check(ask(Scripted(), script.QUESTION))
