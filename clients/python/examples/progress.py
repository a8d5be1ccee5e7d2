"""Output as it is printed. Ctrl-C interrupts the code in the session, and not this program."""

from __future__ import annotations

import sys

from vivarium_client import Client, EventStream, Session, Stderr, Stdout

CODE = """
import sys, time
for percent in range(0, 101, 20):
    print(f"\\r{percent:3} %", end="", file=sys.stderr, flush=True)
    time.sleep(0.05)
print(file=sys.stderr)
print("finished")
"""


def follow(stream: EventStream) -> None:
    """Prints what comes."""
    for event in stream:
        if isinstance(event, Stdout):
            print(event.text, end="", flush=True)
        elif isinstance(event, Stderr):
            print(event.text, end="", file=sys.stderr, flush=True)


def run(session: Session) -> None:
    """Runs the code to its end, or to Ctrl-C."""
    with session.stream(CODE) as stream:
        try:
            follow(stream)
        except KeyboardInterrupt:
            session.interrupt()
            follow(stream)
        print(stream.wait().status)


def main() -> None:
    """Runs it in a session of its own."""
    with Client() as client, client.session() as session:
        run(session)


if __name__ == "__main__":
    main()
