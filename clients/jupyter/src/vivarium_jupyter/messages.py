"""What the daemon answers, as contents of Jupyter's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Optional

from vivarium_client import (
    ApiError,
    AwaitingApproval,
    Display,
    ErrorEvent,
    Event,
    Outcome,
    Result,
    Stderr,
    Stdout,
)
from vivarium_client.models import Inspection

Content = dict[str, Any]

# Deeper ones may be more than the parser of a frontend takes.
_MAX_DEPTH = 100

# As the schema of notebooks has it.
_MIME = re.compile(r"[\w.+-]+/[\w.+-]+").fullmatch


def message(event: Event, count: int) -> Optional[tuple[str, Content]]:
    """Returns type and content of the message for an event, if there is one."""
    if isinstance(event, (Stdout, Stderr)):
        name = "stdout" if isinstance(event, Stdout) else "stderr"
        return "stream", {"name": name, "text": event.text}
    if isinstance(event, AwaitingApproval):
        return "stream", {"name": "stderr", "text": "[waits until somebody allows it]\n"}
    if isinstance(event, Display):
        return _shown(event)
    if isinstance(event, Result):
        shown = data({"text/plain": event.value.repr, **event.value.mime})
        return "execute_result", {"execution_count": count, "data": shown, "metadata": {}}
    if isinstance(event, ErrorEvent):
        raised = event.exception
        lines = raised.traceback.rstrip("\n").split("\n")
        return "error", {"ename": raised.type, "evalue": raised.message, "traceback": lines}
    return None


def _shown(event: Display) -> tuple[str, Content]:
    if event.kind == "clear":
        return "clear_output", {"wait": False}
    kind = "update_display_data" if event.kind == "update" else "display_data"
    transient = {} if event.id is None else {"display_id": event.id}
    return kind, {"data": data(event.content.mime), "metadata": {}, "transient": transient}


def failure(name: str, value: str) -> Content:
    """Returns the content of an error that has no traceback."""
    line = f"{name}: {value}" if value else name
    return {"ename": name, "evalue": value, "traceback": [line]}


def refusal(error: Exception) -> Content:
    """Returns the error that a request which was refused, or reached no daemon, becomes."""
    if isinstance(error, ApiError):
        return failure(error.code, f"{error.detail}. {error.fix}" if error.fix else error.detail)
    return failure(type(error).__name__, str(error))


def ended(outcome: Outcome) -> Content:
    """Returns the error that the end of code becomes which raised nothing and is not ok."""
    interrupted = outcome.status == "interrupted"
    name = "KeyboardInterrupt" if interrupted else outcome.cause or outcome.status
    lost = "The kernel was lost, and its variables with it" if outcome.state == "lost" else ""
    return failure(name, ". ".join(part for part in (outcome.detail, lost) if part))


def data(mime: Mapping[str, str]) -> Content:
    """Returns a MIME bundle with JSON as it is. A notebook with a key that is none is not valid."""
    return {kind: _representation(kind, text) for kind, text in mime.items() if _MIME(kind)}


def _representation(kind: str, text: str) -> object:
    if re.fullmatch(r"application/(json|.*\+json)", kind) is None:
        return text
    try:
        value = json.loads(text)
        # Lone surrogates, NaN and numbers of too many digits are no JSON for others.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return text
    return value if _is_shallow(value, _MAX_DEPTH) else text


def _is_shallow(value: object, depth: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_shallow(one, depth - 1) for one in inner)


def described(found: Inspection, *, with_source: bool) -> str:
    """Returns a name in words, as a prompt shows it."""
    source = found.source if with_source else None
    lines = {
        "Signature:  ": found.signature and f"{found.name}{found.signature}",
        "Type:       ": found.type,
        "String form: ": not found.signature and found.repr,
        "Docstring:\n": source is None and found.docstring,
        "Source:\n": source,
    }
    return "\n".join(f"{label}{text}" for label, text in lines.items() if text)


_UNIT_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}


def seconds(duration: str) -> float:
    """Reads a duration of the daemon's policy, such as `1h30m`."""
    parts = re.findall(r"(\d+)(ms|[dhms])", duration)
    return sum(int(count) * _UNIT_SECONDS[unit] for count, unit in parts)
