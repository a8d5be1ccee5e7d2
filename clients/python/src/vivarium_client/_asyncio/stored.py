"""Homes and volumes of an asyncio client: files that outlive sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator

from .._core import requests
from .._core.calls import Calls
from .._core.listing import file_page, home_list, volume_list
from .._core.requests import Stored
from ..models import FileEntry, HomeInfo, VolumeInfo


class _Stored:
    _kind: Stored

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def delete(self, name: str) -> bool:
        """Deletes one that no session has, with all its files. Returns whether it existed.

        Raises:
            Conflict: A session has it.
        """
        return await self._calls.delete(requests.delete_stored(self._kind, name))

    async def files(
        self, name: str, path: str = "", *, recursive: bool = False
    ) -> AsyncIterator[FileEntry]:
        """Yields a directory's entries, in byte order of their paths. No session has to run."""
        after = None
        while True:
            request = requests.stored_files(self._kind, name, path, recursive, after)
            page = await self._calls.fetch(request, file_page)
            for entry in page.entries:
                yield entry
            after = page.next
            if after is None:
                return

    async def read(self, name: str, path: str) -> bytes:
        """Returns a file's content. No session has to run."""
        return await self._calls.download(requests.stored_file(self._kind, name, path))

    async def delete_file(self, name: str, path: str) -> bool:
        """Deletes a file, or a directory with all that is in it. Returns whether it existed."""
        return await self._calls.delete(requests.delete_stored_file(self._kind, name, path))


class AsyncHomes(_Stored):
    """Homes, by the id of their sessions; `@tenant` is that of all the tenant's."""

    _kind = "homes"

    async def list(self) -> list[HomeInfo]:
        return await self._calls.fetch(requests.homes(), home_list)

    async def get(self, id: str) -> HomeInfo:
        return await self._calls.fetch(requests.stored("homes", id), HomeInfo._read)


class AsyncVolumes(_Stored):
    """Volumes, by their names."""

    _kind = "volumes"

    async def create(self, name: str) -> VolumeInfo:
        """Makes a volume: a name is 1 to 64 of `A-Z a-z 0-9 _ -`.

        Raises:
            Conflict: The name is taken.
            QuotaExceeded: There are as many homes and volumes as allowed.
        """
        return await self._calls.fetch(requests.create_volume(name), VolumeInfo._read)

    async def list(self) -> list[VolumeInfo]:
        return await self._calls.fetch(requests.volumes(), volume_list)

    async def get(self, name: str) -> VolumeInfo:
        return await self._calls.fetch(requests.stored("volumes", name), VolumeInfo._read)
