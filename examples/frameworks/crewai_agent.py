"""An agent of CrewAI that runs Python in Vivarium.

pip install ./clients/python
python crewai_agent.py openai/gpt-5 "What is the 1000th prime?"
"""

import sys

from crewai import Agent
from crewai.tools import tool
from vivarium_client import Client  # It reads VIVARIUM_URL and VIVARIUM_TOKEN.


def ask(model, question):
    with Client() as client, client.session() as session:

        @tool
        def run_python(code: str) -> str:
            """Runs Python code. Variables, imports and files stay for the next call."""
            return session.execute(code).as_tool_result()

        agent = Agent(
            role="analyst",
            goal="answer by running code",
            backstory="You run Python.",
            llm=model,
            tools=[run_python],
        )
        return agent.kickoff(question).raw


if __name__ == "__main__":
    print(ask(*sys.argv[1:]))
