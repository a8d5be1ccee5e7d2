"""Environments of an asyncio client: packages that are built once, for any number of sessions."""

from __future__ import annotations

from typing import Optional

from .._core import requests
from .._core.calls import Calls
from .._core.listing import environment_list
from ..errors import ApiError
from ..models import BuildInfo, BuiltEnvironment


class AsyncEnvironments:
    """The tenant's environments, by their names."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def build(
        self,
        name: str,
        *,
        requirements: Optional[str] = None,
        pyproject: Optional[str] = None,
        lock: Optional[str] = None,
        base: Optional[str] = None,
    ) -> BuildInfo:
        """Begins a build, and returns at once: `wait` returns when it is over.

        Args:
            name: 1 to 64 of `A-Z a-z 0-9 _ -`. One of this name is replaced.
            requirements: The content of a requirements.txt.
            pyproject: The content of a pyproject.toml, in its place.
            lock: The content of the uv.lock that goes with it.
            base: The configured environment whose interpreter it uses.

        Raises:
            Forbidden: The operator does not let this tenant build.
            Conflict: An environment of this name is being built.
            QuotaExceeded: There are as many environments or builds as allowed.
        """
        request = requests.build_environment(name, requirements, pyproject, lock, base)
        return await self._calls.fetch(request, BuildInfo._read)

    async def wait(self, name: str) -> BuildInfo:
        """Returns the last build of a name when it is over."""
        build = await self.last_build(name)
        while build.state == "building":
            # The stream of its events ends with it.
            try:
                await self._calls.download(requests.build(name).streamed())
            except ApiError as error:
                if error.code != "result_gone":
                    raise
                # It ended before it printed anything.
            build = await self.last_build(name)
        return build

    async def last_build(self, name: str) -> BuildInfo:
        """Returns how far the last build of a name has come."""
        return await self._calls.fetch(requests.build(name), BuildInfo._read)

    async def log(self, name: str) -> str:
        """Returns what the last build of a name printed, when it is over."""
        log = await self._calls.download(requests.build_log(name))
        return log.decode("utf-8", "replace")

    async def list(self) -> list[BuiltEnvironment]:
        return await self._calls.fetch(requests.environments(), environment_list)

    async def get(self, name: str) -> BuiltEnvironment:
        return await self._calls.fetch(requests.environment(name), BuiltEnvironment._read)

    async def delete(self, name: str) -> bool:
        """Takes the name away; sessions keep what they have. Returns whether it existed."""
        return await self._calls.delete(requests.delete_environment(name))
