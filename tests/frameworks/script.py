"""What the scripted models do: they run code twice in one session, and answer what it printed."""

import re

QUESTION = "What is six times seven?"
# No value is in the code that asks for it, so only a session that kept it can print it.
FIRST, SECOND = "factor = 6", "print('the product is', factor * 7)"
ANSWER = "the product is 42"


def code(results):
    """Returns the code to run next, or None at the end.

    `results` are the texts that the calls before it were answered with.
    """
    return [FIRST, SECOND, None][len(results)]


def call(results):
    """Returns the arguments of the next call of the MCP tool run_python, or None at the end."""
    arguments = {"code": code(results)}
    if results:
        arguments["session"] = re.search(r"\bm-[0-9a-f]+", results[0]).group()
    return arguments if arguments["code"] else None


def answer(results):
    """Returns the line that the second call printed."""
    return re.search(r"the product is \d+", results[-1]).group()


def check(said):
    """Says it if the agent answered what the code printed."""
    assert said == ANSWER, said
    print(said)
