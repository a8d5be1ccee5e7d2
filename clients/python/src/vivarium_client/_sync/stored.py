"""Homes and volumes of a blocking client: files that outlive sessions."""

from __future__ import annotations

from collections.abc import Iterator

from .._core import requests
from .._core.calls import Calls
from .._core.listing import file_page, home_list, volume_list
from .._core.requests import Stored
from .._core.transport import run
from ..models import FileEntry, HomeInfo, VolumeInfo


class _Stored:
    _kind: Stored

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def delete(self, name: str) -> bool:
        """Deletes one that no session has, with all its files. Returns whether it existed.

        Raises:
            Conflict: A session has it.
        """
        return run(self._calls.delete(requests.delete_stored(self._kind, name)))

    def files(self, name: str, path: str = "", *, recursive: bool = False) -> Iterator[FileEntry]:
        """Yields a directory's entries, in byte order of their paths. No session has to run."""
        after = None
        while True:
            request = requests.stored_files(self._kind, name, path, recursive, after)
            page = run(self._calls.fetch(request, file_page))
            yield from page.entries
            after = page.next
            if after is None:
                return

    def read(self, name: str, path: str) -> bytes:
        """Returns a file's content. No session has to run."""
        return run(self._calls.download(requests.stored_file(self._kind, name, path)))

    def delete_file(self, name: str, path: str) -> bool:
        """Deletes a file, or a directory with all that is in it. Returns whether it existed."""
        return run(self._calls.delete(requests.delete_stored_file(self._kind, name, path)))


class Homes(_Stored):
    """Homes, by the id of their sessions; `@tenant` is that of all the tenant's."""

    _kind = "homes"

    def list(self) -> list[HomeInfo]:
        return run(self._calls.fetch(requests.homes(), home_list))

    def get(self, id: str) -> HomeInfo:
        return run(self._calls.fetch(requests.stored("homes", id), HomeInfo._read))


class Volumes(_Stored):
    """Volumes, by their names."""

    _kind = "volumes"

    def create(self, name: str) -> VolumeInfo:
        """Makes a volume: a name is 1 to 64 of `A-Z a-z 0-9 _ -`.

        Raises:
            Conflict: The name is taken.
            QuotaExceeded: There are as many homes and volumes as allowed.
        """
        return run(self._calls.fetch(requests.create_volume(name), VolumeInfo._read))

    def list(self) -> list[VolumeInfo]:
        return run(self._calls.fetch(requests.volumes(), volume_list))

    def get(self, name: str) -> VolumeInfo:
        return run(self._calls.fetch(requests.stored("volumes", name), VolumeInfo._read))
