"""Turns a stream's messages into events, and the events into an outcome."""

from __future__ import annotations

from typing import Any, Callable, Optional

from ..errors import UnexpectedAnswer
from ..events import (
    AwaitingApproval,
    Call,
    CallEnded,
    Display,
    Done,
    ErrorEvent,
    Event,
    Result,
    Started,
    Stderr,
    Stdout,
)
from ..models.media import Representations, Value
from ..models.outcome import ExceptionInfo, Outcome
from .outputs import Outputs
from .reading import Reader
from .sse import Message


class Collector:
    """Reads messages in order, and keeps what the outcome needs."""

    def __init__(self) -> None:
        self._text: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._displays: list[dict[str, Any]] = []
        self._pictures: dict[str, list[dict[str, Any]]] = {"image": [], "video_frame": []}
        self._result: Optional[dict[str, Any]] = None
        self._exception: Optional[dict[str, Any]] = None
        self._outputs = Outputs()

    def event(self, number: int, message: Message) -> Optional[Event]:
        """Returns the message's event; None if a later version defines its kind."""
        read = _READ.get(message.event)
        if read is None:
            return None
        return read(self, number, Reader.parse(message.data.encode(), f"event {message.event}"))

    def _awaiting_approval(self, number: int, reader: Reader) -> Event:
        return AwaitingApproval(
            number,
            reader.required_text("execution_id"),
            reader.required_text("session_id"),
            reader.required_text("approval_id"),
            reader.time("expires_at"),
        )

    def _started(self, number: int, reader: Reader) -> Event:
        return Started(
            number, reader.required_text("execution_id"), reader.required_text("session_id")
        )

    def _stdout(self, number: int, reader: Reader) -> Event:
        self._printed("stdout", reader.text("text"))
        return Stdout(number, reader.text("text"))

    def _stderr(self, number: int, reader: Reader) -> Event:
        self._printed("stderr", reader.text("text"))
        return Stderr(number, reader.text("text"))

    def _printed(self, name: str, text: str) -> None:
        self._text[name].append(text)
        self._outputs.printed(name, text)

    def _display(self, number: int, reader: Reader) -> Event:
        kind, id, mime = reader.text("kind"), reader.optional_text("id"), reader.texts("mime")
        sizes = reader.sizes("sizes")
        if kind in self._pictures:
            forms = mime or dict.fromkeys(sizes, "")
            for form, data in forms.items():
                size = sizes.get(form)
                picture = {"mime_type": form, "data": data, "size_bytes": size}
                self._pictures[kind].append(picture)
                told = {} if size is None else {form: size}
                self._outputs.add(kind, {"sizes": told, "mime": {form: data} if data else {}})
        elif kind == "clear":
            self._displays.clear()
            self._pictures["image"].clear()
            self._outputs.clear()
        elif kind == "update":
            for shown in self._displays:
                if shown["id"] == id:
                    shown.update(mime=mime, sizes=sizes)
        else:
            shown = {"id": id, "mime": mime, "sizes": sizes}
            self._displays.append(shown)
            self._outputs.add("display", shown)
        return Display(number, kind, id, Representations(mime), sizes)

    def _value(self, number: int, reader: Reader) -> Event:
        self._result = reader.fields
        self._outputs.add("result", reader.fields)
        return Result(number, Value._read(reader))

    def _error(self, number: int, reader: Reader) -> Event:
        exception = ExceptionInfo._read(reader)
        self._exception = reader.fields
        self._outputs.add("error", reader.fields)
        return ErrorEvent(number, exception)

    def _call(self, number: int, reader: Reader) -> Event:
        return Call(
            number,
            reader.required_text("execution_id"),
            reader.required_text("session_id"),
            reader.required_text("call_id"),
            reader.required_text("tool"),
            reader.object("arguments").fields,
            reader.time("expires_at"),
        )

    def _call_ended(self, number: int, reader: Reader) -> Event:
        return CallEnded(
            number,
            reader.required_text("execution_id"),
            reader.required_text("session_id"),
            reader.required_text("call_id"),
            reader.text("outcome"),
        )

    def _done(self, number: int, reader: Reader) -> Event:
        # `done` is the outcome without what the other events have told.
        stdout, stderr = ("".join(self._text[name]) for name in ("stdout", "stderr"))
        told = {
            "stdout": stdout,
            "stdout_bytes": len(stdout.encode(errors="replace")),
            "stderr": stderr,
            "stderr_bytes": len(stderr.encode(errors="replace")),
            "displays": self._displays,
            "images": self._pictures["image"],
            "video_frames": self._pictures["video_frame"],
            "result": self._result,
            "exception": self._exception,
            "outputs": self._outputs.finish(reader.text("execution_id")),
        }
        return Done(number, Outcome._read(Reader({**reader.fields, **told}, reader.where)))


_READ: dict[str, Callable[[Collector, int, Reader], Event]] = {
    "awaiting_approval": Collector._awaiting_approval,
    "started": Collector._started,
    "stdout": Collector._stdout,
    "stderr": Collector._stderr,
    "display": Collector._display,
    "result": Collector._value,
    "error": Collector._error,
    "call": Collector._call,
    "call_ended": Collector._call_ended,
    "done": Collector._done,
}


def event_number(message: Message) -> int:
    try:
        return int(message.id)
    except ValueError as error:
        raise UnexpectedAnswer(f"{message.id!r:.40} is no number of an event") from error
