"""An agent of smolagents whose code runs in a sandbox of E2B: state, a tool, errors, its answer."""

from smolagents import ChatMessage, CodeAgent, MessageRole, Model, tool

STEPS = [
    "import os\nproduct = 6 * 7\nprint(product, os.path.expanduser('~'))",
    "1 / 0",
    "final_answer({'product': product, 'doubled': twice(product)})",
]


@tool
def twice(number: int) -> int:
    """Doubles a number.

    Args:
        number: What is doubled.
    """
    return 2 * number


class Scripted(Model):
    def __init__(self):
        super().__init__()
        self.steps = iter(STEPS)
        self.read = ""

    def generate(self, messages, **_):
        self.read = str(messages)
        code = f"<code>\n{next(self.steps)}\n</code>"
        return ChatMessage(role=MessageRole.ASSISTANT, content=code)


model = Scripted()
options = {"executor_type": "e2b", "additional_authorized_imports": []}
with CodeAgent(tools=[twice], model=model, **options) as agent:
    answer = agent.run("What is 6 * 7?")
assert answer == {"product": 42, "doubled": 84}, answer
assert "42 /home/user" in model.read and "ZeroDivisionError" in model.read, model.read
print("passed")
