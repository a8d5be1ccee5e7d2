"""Writing local files."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Union

StrPath = Union[str, "os.PathLike[str]"]


@contextmanager
def replacing(target: Union[StrPath, IO[bytes]]) -> Iterator[IO[bytes]]:
    """Yields a file that replaces `target` on success."""
    if not isinstance(target, (str, os.PathLike)):
        yield target
        return
    path = Path(target)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
