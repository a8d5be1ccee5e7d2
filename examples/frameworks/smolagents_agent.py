"""A CodeAgent of smolagents whose code runs in Vivarium, by an executor of its own.

pip install ./clients/python
python smolagents_agent.py Qwen/Qwen3-Next-80B-A3B-Thinking "What is the 1000th prime?"
"""

import sys

from smolagents import AgentError, CodeAgent, InferenceClientModel
from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import RemotePythonExecutor
from vivarium_client import Client  # It reads VIVARIUM_URL and VIVARIUM_TOKEN.


class VivariumExecutor(RemotePythonExecutor):
    """Runs what a CodeAgent writes in a session."""

    def __init__(self, session):
        super().__init__(additional_imports=[], logger=AgentLogger())
        self.session = session

    def run_code_raise_errors(self, code):
        outcome = self.session.execute(code)
        raised = outcome.exception
        if raised and raised.type.endswith(self.FINAL_ANSWER_EXCEPTION):
            answer = self._deserialize_final_answer(raised.message, self.allow_pickle)
            return CodeOutput(answer, outcome.text, is_final_answer=True)
        if outcome.status != "ok":
            raise AgentError(str(outcome), self.logger)
        return CodeOutput(outcome.value, outcome.text, is_final_answer=False)


def ask(model, question):
    with Client() as client, client.session() as session:
        executor = VivariumExecutor(session)
        return CodeAgent(tools=[], model=model, executor=executor).run(question)


if __name__ == "__main__":
    print(ask(InferenceClientModel(sys.argv[1]), sys.argv[2]))
