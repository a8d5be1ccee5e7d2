"""A code interpreter as a tool of a language model: JSON in, JSON out, one session per
conversation.

    VIVARIUM_URL=unix:/run/vivarium/api.sock python examples/tool.py
"""

from __future__ import annotations

import json
from typing import Any

from vivarium_client import Client, Session

LONGEST_CHARS = 4000


def python(session: Session, arguments: str) -> str:
    """Runs the tool call `{"code": …}` and says what came of it, in words a model can use."""
    outcome = session.execute(json.loads(arguments)["code"], timeout=20)
    answer: dict[str, Any] = {"status": outcome.status, "stdout": shortened(outcome.stdout)}
    if outcome.stderr:
        answer["stderr"] = shortened(outcome.stderr)
    if outcome.value is not None:
        answer["value"] = shortened(outcome.value.repr)
    if outcome.exception is not None:
        answer["traceback"] = shortened(outcome.exception.traceback)
    elif not outcome.ok:
        answer["reason"] = outcome.detail
    if outcome.state == "lost":
        answer["note"] = "all variables are gone: the kernel was replaced"
    if outcome.images:
        answer["images"] = len(outcome.images)
    return json.dumps(answer)


def shortened(text: str) -> str:
    """The beginning and the end of a long text."""
    if len(text) <= LONGEST_CHARS:
        return text
    half = LONGEST_CHARS // 2
    return f"{text[:half]}\n… {len(text) - LONGEST_CHARS} characters left out …\n{text[-half:]}"


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
