"""Shows an outcome in a notebook.

Everything shown comes from tenant code, and a notebook runs the scripts of HTML with all its
user's rights, including over its own kernel. So HTML goes into a frame without scripts (HTML
standard, `sandbox`) and without network (Content Security Policy), SVG into an `<img>`, where it
has neither, and everything that is not plainly an image or text is left out. Nothing here may
hand tenant markup to the page itself unless the user has said `trusted`. A notebook trusts what a
cell shows that was just run, so it sanitises none of the following:

- Markdown has HTML and `javascript:` links in it. It is shown as its source.
- LaTeX may have links, styles and macros. A formula of known commands is typeset, and all else is
  shown as its source: see `_latex`.
- A figure of plotly is data, but texts in it are HTML of a kind, its properties have been a way to
  pollute prototypes (CVE-2023-46308 in plotly.js before 2.25.2; links in 2.2.1 and 1.58.5), and it
  names addresses to load maps and pictures from. Which plotly.js the page has is not known here.
  It is told of, as figures of Vega and Bokeh are; their HTML would be an empty frame.
"""

from __future__ import annotations

import base64
import html
import importlib
import json
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable

from ._latex import typeset

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

# Drawn by a script of the page.
_SCRIPTED = re.compile(
    r"application/vnd\.(plotly|vegalite|vega|bokehjs_exec|bokehjs_load|holoviews_exec)\b.*"
)

Bundle = Mapping[str, Any]


def plain(text: str) -> str:
    """Removes control sequences, except colours and movement within the text."""
    return _CONTROL.sub(lambda match: match[1] or "", text)


def safe_bundle(mime: Mapping[str, str]) -> dict[str, str]:
    """Returns a MIME bundle that a page can show without running any of it."""
    bundle = {kind: data for kind, data in mime.items() if kind in _RASTER}
    pictured = bool(bundle)
    scripted = next(filter(None, map(_SCRIPTED.fullmatch, mime)), None)
    if "text/plain" in mime:
        bundle["text/plain"] = plain(mime["text/plain"])
    if scripted is not None:
        if not pictured:
            bundle["text/plain"] = f"A figure of {scripted[1]}: show(trusted=True) draws it"
    elif "text/html" in mime:
        bundle["text/html"] = _framed(mime["text/html"])
    elif "image/svg+xml" in mime and not pictured:
        bundle["text/html"] = _svg(mime["image/svg+xml"])
    elif "text/latex" in mime and (formula := typeset(mime["text/latex"])) is not None:
        bundle["text/latex"] = formula
    elif not pictured:
        for kind in ("text/markdown", "text/latex"):
            if kind in mime:
                bundle["text/plain"] = plain(mime[kind])
                break
    return bundle


def full_bundle(mime: Mapping[str, str]) -> dict[str, Any]:
    """Returns a MIME bundle as notebooks want it: everything, with JSON as objects."""
    return {kind: _parsed(kind, data) for kind, data in mime.items()}


def _parsed(kind: str, data: str) -> object:
    if kind != "application/json" and not kind.endswith("+json"):
        return data
    try:
        return json.loads(data)
    except ValueError:
        return data


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
    dress: Callable[[Mapping[str, str]], Bundle] = full_bundle if trusted else safe_bundle
    for output in outcome.outputs:
        _present(output, lambda mime: publish(dress(mime)))
    if outcome.outputs:
        return
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


def _present(output: Mapping[str, Any], publish: Callable[[Mapping[str, str]], None]) -> None:
    """Shows one of the outputs that came in the form of a notebook's."""
    kind = output.get("output_type")
    if kind == "stream":
        stream = sys.stderr if output.get("name") == "stderr" else sys.stdout
        stream.write(plain(str(output.get("text", ""))))
    elif kind == "error":
        sys.stderr.write(plain("\n".join(map(str, output.get("traceback") or ())) + "\n"))
    else:
        mime = (output.get("data") or {}).items()
        publish({form: data if isinstance(data, str) else json.dumps(data) for form, data in mime})
