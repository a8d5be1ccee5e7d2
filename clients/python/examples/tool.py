"""A code interpreter as a tool of a language model: JSON in, text out, one session per
conversation.

    VIVARIUM_URL=unix:/run/vivarium/api.sock python examples/tool.py
"""

from __future__ import annotations

import json
from typing import Any

from vivarium_client import Client, Session


def python(session: Session, arguments: str) -> str:
    """Runs the tool call `{"code": …}` and says what came of it, in words a model can use.

    `as_tool_result("anthropic", call_id)` and its like have the shape of an API's message.
    """
    outcome = session.execute(json.loads(arguments)["code"], timeout=20)
    return outcome.as_tool_result(max_chars=4000)


def main() -> None:
    """Plays the model."""
    limits: Any = {"max_memory_mb": 512}
    with Client() as client, client.session(network="none", limits=limits) as session:
        for code in (
            "import statistics\ndata = [3, 1, 4, 1, 5, 9, 2, 6]",
            "statistics.mean(data)",
            "statistics.median(date)",
            "import os; os._exit(3)",
            "data",
        ):
            print(python(session, json.dumps({"code": code})))


if __name__ == "__main__":
    main()
