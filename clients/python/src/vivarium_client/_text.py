"""An outcome as text, for a terminal and for a language model.

All of it comes from tenant code, which must neither drive the terminal that shows it nor hide what
it shows: control characters are spelt out. Content is never binary: images and files are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from .models.media import Image, OutputFile, Representations
    from .models.outcome import Outcome

# Colours say nothing in plain text. Everything else that a terminal obeys, that reorders text (the
# Unicode bidirectional algorithm's controls) or that UTF-8 cannot carry is spelt out.
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

NAMED_AT_MOST = 20
"""So many images and files are named one by one."""

LEAST_CHARS = 200
"""Less could not say how an execution ended."""


def visible(text: str) -> str:
    """Spells out control characters, except the ends of lines and tabs. Colours are dropped."""
    return _UNSEEN.sub(_spelt, _COLOUR.sub("", text).replace("\r\n", "\n"))


def _spelt(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def line(text: str) -> str:
    """Spells out what would end the line, too: nobody can make two lines of a name."""
    return visible(text).replace("\n", "\\n")


def described(outcome: Outcome, max_chars: Optional[int] = None, *notes: str) -> str:
    """Returns what happened: what the code printed and returned, then how it ended, and notes.

    Over `max_chars` characters, the middle of the former is left out.
    """
    body = "".join(f"{part}\n" for part in _body(outcome))
    end = "".join(f"[{part}]\n" for part in (*_end(outcome), *notes))
    if max_chars is not None:
        if max_chars < LEAST_CHARS:
            raise ValueError(f"max_chars is at least {LEAST_CHARS}")
        end = cut(end, max_chars // 2)
        body = cut(body, max_chars - len(end))
    text = (body + end).rstrip("\n")
    # The APIs of models refuse texts of nothing but space.
    return text if text.strip() else "[no visible output]"


def cut(text: str, max_chars: int) -> str:
    """Keeps the beginning and the end of a long text, and says how much is missing."""
    if len(text) <= max_chars:
        return text
    # As long as the real one or longer.
    longest = len(_missing(len(text), len(text)))
    kept = max(max_chars - longest, 0)
    head, tail = text[: kept - kept // 2], text[len(text) - kept // 2 :]
    return f"{head}{_missing(len(text) - kept, len(text))}{tail}"


def _missing(missing: int, total: int) -> str:
    return f"\n[{missing} of {total} characters left out]\n"


def _body(outcome: Outcome) -> Iterator[str]:
    if outcome.outputs:
        yield from map(_output, outcome.outputs)
        return
    if outcome.stdout:
        yield _ended(outcome.stdout)
    if outcome.stderr:
        yield f"[stderr]\n{_ended(outcome.stderr)}"
    for shown in outcome.displays:
        yield _ended(_source(shown))
    if outcome.value is not None:
        yield _ended(outcome.value.repr or _source(outcome.value))
    raised = outcome.exception
    if raised is not None:
        yield _ended(raised.traceback or f"{raised.type}: {raised.message}")


def _output(output: Mapping[str, Any]) -> str:
    """Returns an output of a notebook's cell as text."""
    kind = output.get("output_type")
    if kind == "stream":
        text = _ended(str(output.get("text", "")))
        return f"[stderr]\n{text}" if output.get("name") == "stderr" else text
    if kind == "error":
        trace = "\n".join(map(str, output.get("traceback") or ()))
        return _ended(trace or f"{output.get('ename')}: {output.get('evalue')}")
    return _ended(_form(output.get("data") or {}))


def _ended(text: str) -> str:
    text = visible(text)
    return text[:-1] if text.endswith("\n") else text


def _source(shown: Representations) -> str:
    return _form(shown.mime)


def _form(mime: Mapping[str, Any]) -> str:
    for kind in ("text/markdown", "text/latex", "text/plain"):
        if isinstance(mime.get(kind), str):
            return str(mime[kind])
    return f"[display: {_listed(line(kind) for kind in mime)}]"


def _end(outcome: Outcome) -> Iterator[str]:
    if not outcome.ok:
        code = outcome.exit_code
        parts = (
            outcome.status,
            outcome.cause,
            None if outcome.exception is None else outcome.exception.type,
            None if code is None else f"exit code {code}",
            outcome.detail,
        )
        yield line(": ".join(part for part in parts if part))
    if outcome.state == "lost":
        yield "all variables are lost"
    if outcome.rolled_back:
        yield "the session was rolled back to its last checkpoint"
    for name, truncated in (
        ("stdout", outcome.stdout_truncated),
        ("stderr", outcome.stderr_truncated),
    ):
        if truncated:
            yield f"{name} was longer than the limit: the rest is missing"
    pictures = images(outcome)
    for number, image in enumerate(pictures[:NAMED_AT_MOST], 1):
        yield f"image {number}: {line(image.mime_type)}, {_bytes(_decoded(image.data))}"
    if len(pictures) > NAMED_AT_MOST:
        yield f"{len(pictures) - NAMED_AT_MOST} more images"
    if outcome.video_frames:
        yield f"frames of animations: {len(outcome.video_frames)}"
    for file in islice(outcome.files.values(), NAMED_AT_MOST):
        yield f"file {line(file.name)}: {_file(file)}"
    if len(outcome.files) > NAMED_AT_MOST:
        yield f"{len(outcome.files) - NAMED_AT_MOST} more files"
    if outcome.files_changed:
        changed = (
            f"{line(file.name)} ({_bytes(file.size_bytes)})" for file in outcome.files_changed
        )
        more = " and more" if outcome.files_changed_more else ""
        yield f"files changed: {_listed(changed)}{more}"


def images(outcome: Outcome) -> list[Image]:
    """Returns all pictures of an outcome: figures, and what displays and the value look like."""
    from .models.media import raster  # noqa: PLC0415  (which imports this module)

    found = list(outcome.images)
    for output in () if found or outcome.displays or outcome.value else outcome.outputs:
        part = str(((output.get("metadata") or {}).get("vivarium") or {}).get("part"))
        image = None if part.startswith("video_frames/") else raster(output.get("data") or {})
        if image is not None:
            found.append(image)
    for shown in (*outcome.displays, outcome.value):
        image = None if shown is None else shown.image
        if image is not None:
            found.append(image)
    return found


def _file(file: OutputFile) -> str:
    if file.content is None:
        return line(file.error or "no content")
    return f"{line(file.mime_type)}, {_bytes(file.size_bytes)}"


def _decoded(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = len(names) - NAMED_AT_MOST
    return ", ".join(names[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
