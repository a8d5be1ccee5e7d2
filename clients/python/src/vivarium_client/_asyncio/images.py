"""Images of suspended sessions, for an asyncio client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import IO, Optional, Union

from .._core import images
from .._core.calls import Calls
from .._core.content import AsyncContent
from .._core.listing import image_page
from .._core.local import StrPath, replacing
from ..models import SessionInfo, StoredImage
from .session import AsyncSession, Opening


class AsyncImages:
    """Images of the tenant's suspended sessions, by session id. No call resumes one."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list(self) -> AsyncIterator[StoredImage]:
        """Yields the images, ordered by id."""
        after = None
        while True:
            page = await self._calls.fetch(images.stored_images(after), image_page)
            for image in page.entries:
                yield image
            after = page.next
            if after is None:
                return

    async def get(self, id: str) -> StoredImage:
        """Returns what there is of a suspended session on disk.

        Raises:
            Conflict: The session is not suspended (`not_suspended`).
        """
        return await self._calls.fetch(images.stored_image(id), StoredImage._read)

    async def delete(self, id: str) -> bool:
        """Deletes an image, and so its session. Returns whether there was such a session.

        Raises:
            Conflict: The session is not suspended (`not_suspended`), and stays.
        """
        return await self._calls.delete(images.delete_image(id))

    async def export(
        self, id: str, target: Union[StrPath, IO[bytes]], *, checkpoint: Optional[str] = None
    ) -> int:
        """Streams an image to a local path or an open file. Returns the number of bytes.

        It is encrypted, and for daemons that have the same key. The session stays. A file at a
        local path is replaced only when the image is complete.

        Args:
            id: The session's id.
            target: A local path, or a file that is open for bytes.
            checkpoint: The name of a checkpoint, which is exported instead; the session need not
                be suspended then.

        Raises:
            Conflict: The session is not suspended (`not_suspended`).
            NotFound: There is no such session or checkpoint.
        """
        with replacing(target) as file:
            return await self._calls.download_to(images.export_image(id, checkpoint), file)

    def import_(self, image: AsyncContent, id: Optional[str] = None) -> Opening[AsyncSession]:
        """Makes a suspended session of an image that was exported; await it for the session.

        As `async with client.images.import_("a.tar") as session`, the session is deleted at the
        end.

        Args:
            image: A local file (path or open), bytes, or an iterable of bytes, also an
                asynchronous one. It is streamed.
            id: The session's id; the one it had where it was exported if not given.

        Raises:
            Conflict: The id is taken (`session_exists`), or the image is not whole, of another
                key or of another tenant (`image_failed`).
            InvalidRequest: The daemon does not have its environment.
            QuotaExceeded: The tenant has as many images, or bytes of them, as it may.
        """

        async def opened() -> AsyncSession:
            request = images.import_image(image, id)
            info = await self._calls.fetch(request, SessionInfo._read)
            return AsyncSession(self._calls, info.id, deletes_itself=True)

        return Opening(opened)
