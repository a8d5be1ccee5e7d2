"""Many programs at once, each in a sandbox of its own, with asyncio."""

from __future__ import annotations

import asyncio

from vivarium_client import AsyncClient, Outcome

PROGRAMS = {
    "sum": "print(sum(range(1_000_000)))",
    "mistake": "print(1 / 0)",
    "endless": "while True: pass",
    "curious": "print(open('/etc/shadow').read())",
}

AT_ONCE = 2


async def main() -> None:
    """Runs them all, not too many at once."""
    room = asyncio.Semaphore(AT_ONCE)

    async def run(client: AsyncClient, code: str) -> Outcome:
        async with room:
            return await client.run(code, timeout=1, network="none")

    async with AsyncClient() as client:
        outcomes = await asyncio.gather(*(run(client, code) for code in PROGRAMS.values()))
    for name, outcome in zip(PROGRAMS, outcomes):
        told = outcome.exception.type if outcome.exception else outcome.text.strip()
        print(f"{name:8} {outcome.status:9} {told}")


if __name__ == "__main__":
    asyncio.run(main())
