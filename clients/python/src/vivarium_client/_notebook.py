"""Shows an outcome in a notebook.

Everything shown comes from tenant code, and a notebook runs the scripts of HTML with all its
user's rights, including over its own kernel. So HTML goes into a frame without scripts (HTML
standard, `sandbox`) and without network (Content Security Policy), SVG into an `<img>`, where it
has neither, and everything that is not plainly an image or text is left out. Nothing here may
hand tenant markup to the page itself unless the user has said `trusted`.
"""

from __future__ import annotations

import base64
import html
import importlib
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

if TYPE_CHECKING:
    from .models.outcome import Outcome

_RASTER = ("image/png", "image/jpeg", "image/gif", "image/webp")

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:"

# Colours and the cursor moves of progress bars (ECMA-48 CSI) stay. Other control sequences can
# set a terminal's title or clipboard.
_CONTROL = re.compile(
    r"(\x1b\[[0-9;]*[mABCDGK])|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\|\Z)"
    r"|\x1b.?|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]",
    re.DOTALL,
)

Bundle = Mapping[str, str]


def plain(text: str) -> str:
    """Removes control sequences, except colours and movement within the text."""
    return _CONTROL.sub(lambda match: match[1] or "", text)


def safe_bundle(mime: Bundle) -> dict[str, str]:
    """Returns a MIME bundle that a page can show without running any of it."""
    bundle = {kind: data for kind, data in mime.items() if kind in _RASTER}
    if "text/plain" in mime:
        bundle["text/plain"] = plain(mime["text/plain"])
    if "text/html" in mime:
        bundle["text/html"] = _framed(mime["text/html"])
    elif "image/svg+xml" in mime and not bundle.keys() & set(_RASTER):
        bundle["text/html"] = _svg(mime["image/svg+xml"])
    return bundle


def _framed(content: str) -> str:
    page = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">{content}'
    # Without scripts the frame can not tell how high its page is: a row of a table is some 24 px.
    height = min(max(content.count("<tr") * 24 + 48, 120), 600)
    return (
        f'<iframe sandbox="" srcdoc="{html.escape(page)}" style="width: 100%; '
        f'height: {height}px; border: 0; resize: vertical; background: white"></iframe>'
    )


def _svg(data: str) -> str:
    if data.lstrip().startswith("<"):
        data = base64.b64encode(data.encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{html.escape(data)}">'


def show(outcome: Outcome, *, trusted: bool) -> None:
    """Shows an outcome in the running cell."""
    # IPython is there where there is a cell; nothing else needs it.
    display: Any = importlib.import_module("IPython.display").display

    def publish(bundle: Bundle) -> None:
        display(dict(bundle), raw=True)

    present(outcome, publish, trusted=trusted)


def present(outcome: Outcome, publish: Callable[[Bundle], None], *, trusted: bool) -> None:
    """Writes text to standard output and error, and passes everything else to `publish`."""
    dress = dict if trusted else safe_bundle
    sys.stdout.write(plain(outcome.stdout))
    sys.stderr.write(plain(outcome.stderr))
    for shown in outcome.displays:
        publish(dress(shown.mime))
    for image in outcome.images:
        publish(dress({"text/plain": repr(image), image.mime_type: image.data}))
    if outcome.value is not None:
        publish(dress({"text/plain": outcome.value.repr, **outcome.value.mime}))
    if outcome.exception is not None:
        sys.stderr.write(plain(outcome.exception.traceback))
    elif not outcome.ok:
        parts = (outcome.status, outcome.cause, outcome.detail)
        sys.stderr.write(plain(": ".join(part for part in parts if part)) + "\n")
