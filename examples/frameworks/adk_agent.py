"""An agent of Google's ADK whose code runs in Vivarium, by a code executor of its own.

    pip install ./clients/python
    python adk_agent.py gemini-3.5-flash "What is the 1000th prime?"

Every session of the agent has a session of Vivarium with the same id, so variables stay.
"""

import asyncio
import sys
import uuid

from google.adk.agents import LlmAgent
from google.adk.code_executors import BaseCodeExecutor
from google.adk.code_executors.code_execution_utils import CodeExecutionResult
from google.adk.runners import InMemoryRunner
from vivarium_client import Client  # It reads VIVARIUM_URL and VIVARIUM_TOKEN.


class VivariumCodeExecutor(BaseCodeExecutor):
    """Runs the code blocks of a model's answers in the session named after the agent's."""

    stateful: bool = True

    def execute_code(self, invocation_context, code_execution_input):
        with Client() as client:
            session = client.attach(invocation_context.session.id)
            outcome = session.execute(
                code_execution_input.code, timeout=self.timeout_seconds, create=True
            )
        # ADK takes what is on stderr for a failure, and has the model try again.
        failed = outcome.status != "ok"
        return CodeExecutionResult(**{"stderr" if failed else "stdout": str(outcome)})


async def ask(model, question):
    agent = LlmAgent(name="analyst", model=model, code_executor=VivariumCodeExecutor())
    runner = InMemoryRunner(agent)
    events = await runner.run_debug(question, session_id=uuid.uuid4().hex, quiet=True)
    return "".join(part.text or "" for part in events[-1].content.parts)


if __name__ == "__main__":
    print(asyncio.run(ask(*sys.argv[1:])))
