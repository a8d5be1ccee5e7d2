"""Times `run_code` of E2B's SDK beside `execute` of Vivarium's client, in turns, in one process.

    python compare.py API_ADDRESS [TIMES]

The SDK finds E2B's listener by its own variables, as docs/dialects.md says.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from e2b_code_interpreter import Sandbox
from vivarium_client import Client

WARM_UP = 20


def milliseconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1000


def main(address: str, times: int) -> None:
    with Sandbox.create() as sandbox, Client(address) as client, client.session() as session:
        pairs = [
            (
                milliseconds(lambda: session.execute("1+1")),
                milliseconds(lambda: sandbox.run_code("1+1")),
            )
            for _ in range(WARM_UP + times)
        ]
    client_ms, sdk_ms = (statistics.median(column) for column in zip(*pairs[WARM_UP:]))
    print(f"p50: execute {client_ms:.3f} ms, run_code {sdk_ms:.3f} ms")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 400)
