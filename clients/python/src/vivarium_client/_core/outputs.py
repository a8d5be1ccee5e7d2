"""Puts what a stream told into a notebook's order, as the daemon does for a whole outcome."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

_MAX_TEXTS = 10_000
_MAX_DEPTH = 100
_MANY_DIGITS = re.compile(r"[0-9]{4001}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LISTS = {"display": "displays", "image": "images", "video_frame": "video_frames"}


class Outputs:
    """What was printed, shown, returned and raised, in order."""

    def __init__(self) -> None:
        self._places: list[tuple[str, Any]] = []
        self._last: dict[str, list[str]] = {}
        self._texts = 0

    def printed(self, name: str, text: str) -> None:
        """Adds text of a stream."""
        last = self._last.get(name)
        joins = bool(self._places) and self._places[-1][1] is last
        if last is not None and (joins or self._texts >= _MAX_TEXTS):
            last.append(text)
            return
        self._texts += 1
        self._last[name] = [text]
        self._places.append((name, self._last[name]))

    def add(self, kind: str, content: dict[str, Any]) -> None:
        """Adds a `display`, `image`, `video_frame`, `result` or `error`. A later change of a
        display's content shows."""
        self._places.append((kind, content))

    def clear(self) -> None:
        """Forgets what came so far, but no frames of animations."""
        self._places = [place for place in self._places if place[0] == "video_frame"]
        self._last.clear()
        self._texts = 0

    def finish(self, execution_id: str) -> list[dict[str, Any]]:
        """Returns the outputs."""
        counts = dict.fromkeys(_LISTS, 0)
        outputs = []
        for kind, content in self._places:
            if kind in counts:
                part = f"{_LISTS[kind]}/{counts[kind]}"
                counts[kind] += 1
                outputs.append({"output_type": "display_data", **_shown(part, content)})
            elif kind == "result":
                number = int(execution_id) if execution_id.isdecimal() else None
                result = _shown("result", content)
                outputs.append(
                    {"output_type": "execute_result", "execution_count": number, **result}
                )
            elif kind == "error":
                outputs.append(_error(content))
            elif text := "".join(content):
                outputs.append({"output_type": "stream", "name": kind, "text": text})
        return outputs


def _shown(part: str, content: dict[str, Any]) -> dict[str, Any]:
    told = {"part": part, "sizes": content.get("sizes") or {}}
    mime = content.get("mime") or {}
    data = {kind: _representation(kind, text) for kind, text in mime.items()}
    return {"metadata": {"vivarium": told}, "data": data}


def _error(content: dict[str, Any]) -> dict[str, Any]:
    lines = content["traceback"].split("\n")
    if not lines[-1]:
        lines.pop()
    return {
        "output_type": "error",
        "ename": content["type"],
        "evalue": content["message"],
        "traceback": [line[:-1] if line.endswith("\r") else line for line in lines],
    }


def _representation(kind: str, text: str) -> Any:
    """JSON as it is, unless some parser could fail for it."""
    is_json = kind == "application/json" or re.fullmatch(r"application/.*\+json", kind)
    if not is_json or _MANY_DIGITS.search(text):
        return text
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return value if _is_plain(value, _MAX_DEPTH) else text


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, str):
        return _SURROGATE.search(value) is None
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    elif isinstance(value, list):
        inner = value
    else:
        return True
    return depth > 0 and all(_is_plain(one, depth - 1) for one in inner)
