"""The outcome of an execution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Optional, TypeVar, Union, overload

from .. import _notebook, _text, _tool, errors
from .._core.reading import Reader
from .media import ChangedFile, DisplayData, Image, OutputFile, Value
from .names import Cause, ExecutionKind, ExecutionState, Status, Survival

Self = TypeVar("Self", bound="Outcome")


@dataclass(frozen=True)
class ExceptionInfo:
    """An uncaught exception."""

    type: str
    """The class, qualified unless builtin or defined by the code."""
    message: str
    traceback: str = field(repr=False)
    """As Python prints it, with the user's source lines."""

    @classmethod
    def _read(cls, reader: Reader) -> ExceptionInfo:
        return cls(reader.text("type"), reader.text("message"), reader.text("traceback"))


@dataclass(frozen=True)
class TextCut:
    """A text that `max_output_chars` has cut. `Session.execution` returns it in full."""

    part: str
    """`stdout`, `stderr`, `result`, `exception`, `exception/message` or, counted from 0,
    `displays/0`."""
    mime_type: Optional[str]
    """The representation that was cut; None for other texts, and a value's `repr`."""
    kept_chars: int
    dropped_chars: int
    """Representations other than plain text are left out as a whole."""

    @classmethod
    def _read(cls, reader: Reader) -> TextCut:
        return cls(
            reader.required_text("part"),
            reader.optional_text("mime_type"),
            reader.integer("kept_chars"),
            reader.integer("dropped_chars"),
        )


@dataclass(frozen=True)
class Usage:
    """Resources that an execution used."""

    cpu_ms: float
    """CPU time of all the session's processes."""
    memory_peak_bytes: int
    """Peak memory."""
    io_read_bytes: Optional[int] = None
    """Bytes read from disks; None without an io controller."""
    io_write_bytes: Optional[int] = None
    """Bytes written to disks; None without an io controller."""
    work: Optional[int] = None
    """Ticks of the code's work; None without `max_work`."""

    @classmethod
    def _read(cls, reader: Reader) -> Usage:
        return cls(
            reader.number("cpu_ms"),
            reader.integer("memory_peak_bytes"),
            reader.optional_integer("io_read_bytes"),
            reader.optional_integer("io_write_bytes"),
            reader.optional_integer("work"),
        )


@dataclass(frozen=True)
class PreviousEnd:
    """Why the previous kernel ended."""

    cause: Cause
    """Such as `signal`, `memory_limit`, `wall_time` or `reset`."""
    detail: str
    """The evidence, in words; may be empty."""

    @classmethod
    def _read(cls, reader: Reader) -> PreviousEnd:
        return cls(reader.required_text("cause"), reader.text("detail"))


@dataclass(frozen=True)
class Kernel:
    """The kernel that an execution ran in."""

    generation: int
    """Counts the context's kernels from 1. If it differs between two executions, variables and
    modules are lost."""
    fresh: bool
    """Whether no code had run in it before."""
    previous_end: Optional[PreviousEnd]
    """Why the previous kernel ended; None for the first."""
    context: str = "main"
    """Whose kernel it is. Of a command, which runs beside it, always `main`."""

    @classmethod
    def _read(cls, reader: Reader) -> Kernel:
        end = reader.optional_object("previous_end")
        return cls(
            reader.integer("generation"),
            reader.flag("fresh"),
            None if end is None else PreviousEnd._read(end),
            reader.optional_text("context") or "main",
        )


@dataclass(frozen=True, repr=False)
class Outcome:
    """The outcome of an execution. An exception of the code is an outcome like any other.

    In a notebook it shows itself: output, displays, images, value and traceback. `str(outcome)`
    says the same in text: stdout, stderr, displays, the value or the traceback, and then in
    brackets how it ended, if not ok, and its images and files by name, type and size. Control
    characters are spelt out, so that printing it cannot drive a terminal. Code may print lines in
    brackets as well: a program reads `status` and the other fields.
    """

    execution_id: str
    """Unique within the session."""
    session_id: str
    status: Status
    """`ok`, `error`, `timed_out`, `interrupted`, `killed` or `rejected`."""
    cause: Optional[Cause]
    """The reason, if the status alone does not say, such as `memory_limit` or `wall_time`."""
    detail: str
    """The evidence, in words; may be empty."""
    state: Survival
    """Whether the session's variables and modules survived: `preserved` or `lost`."""
    rolled_back: bool
    """Whether they were lost, and the session was rolled back to its last checkpoint: `state` is
    `preserved` then."""
    kernel: Optional[Kernel]
    """The kernel that ran it; None if it was rejected before there was one."""
    session_created: bool
    """Whether this call created the session."""
    exit_code: Optional[int]
    """None for code, and for a command that was killed."""
    stdout: str
    stdout_bytes: int
    """Size of stdout, as far as the daemon keeps it."""
    stdout_truncated: bool
    """Whether there was more than the limit."""
    stderr: str
    stderr_bytes: int
    """Size of stderr, as far as the daemon keeps it."""
    stderr_truncated: bool
    """Whether there was more than the limit."""
    exception: Optional[ExceptionInfo]
    """The uncaught exception."""
    value: Optional[Value]
    """The value of the final expression (`result` in the API)."""
    displays: tuple[DisplayData, ...]
    """Objects passed to `display()`."""
    images: tuple[Image, ...]
    """Figures shown, saved or left open."""
    video_frames: tuple[Image, ...]
    """Frames of animations."""
    outputs: tuple[Mapping[str, Any], ...]
    """All of this in order, as a notebook has it (nbformat 4.5): of every stream, and otherwise if
    `answer` asked for the format `notebook`, which leaves the fields above empty, or `both`."""
    cuts: tuple[TextCut, ...]
    """The texts that are not here in full, if `max_output_chars` was given."""
    files: Mapping[str, OutputFile]
    """The files requested in `outputs`, by name."""
    files_changed: tuple[ChangedFile, ...]
    """Files that the execution created or changed."""
    files_changed_more: bool
    """Whether there are more."""
    duration_ms: float
    """From when a ready kernel got the code to the end."""
    usage: Usage
    audit_events: Optional[Mapping[str, int]] = None
    """How often the code raised each audit event of Python; None without `audit_events`."""
    prints: Optional[tuple[tuple[str, ...], ...]] = None
    """The reprs of what each call of `print` was given; None without `prints`."""

    @property
    def ok(self) -> bool:
        """Whether the code ran to its end."""
        return self.status == "ok"

    @property
    def text(self) -> str:
        """The same as `stdout`."""
        return self.stdout

    def __str__(self) -> str:
        return _text.described(self)

    def __repr__(self) -> str:
        fields = {
            "status": self.status,
            "cause": self.cause,
            "execution_id": self.execution_id,
            "session_id": self.session_id,
            "value": None if self.value is None else self.value.type,
            "exception": None if self.exception is None else self.exception.type,
        }
        told = (f"{name}={value!r:.60}" for name, value in fields.items() if value is not None)
        return f"{type(self).__name__}({', '.join(told)})"

    def raise_for_status(self: Self) -> Self:
        """Returns itself if ok.

        Raises:
            ExecutionError: The code did not run to its end; the subclass says how it ended.
        """
        error = self._error()
        if error is not None:
            raise error
        return self

    def _error(self) -> Optional[errors.ExecutionError]:
        if self.ok:
            return None
        raised = self.exception or _raised(self.outputs)
        if self.status == "error" and raised is not None:
            return errors.CodeError(self, raised.type, raised.message, raised.traceback)
        if self.status == "error" and self.exit_code is not None:
            return errors.CommandFailed(self, self.exit_code)
        message = ": ".join(part for part in (self.status, self.cause, self.detail) if part)
        kind = _ERRORS.get(self.status, errors.ExecutionError)
        return kind(message, self)

    @overload
    def as_tool_result(
        self, format: Literal["text"] = "text", *, max_chars: int = ..., max_images: int = ...
    ) -> str: ...

    @overload
    def as_tool_result(
        self, format: Literal["mcp"], *, max_chars: int = ..., max_images: int = ...
    ) -> dict[str, Any]: ...

    @overload
    def as_tool_result(
        self,
        format: Literal["openai-chat", "openai-responses", "anthropic"],
        call_id: str,
        *,
        max_chars: int = ...,
        max_images: int = ...,
    ) -> dict[str, Any]: ...

    def as_tool_result(
        self,
        format: _tool.ToolFormat = "text",
        call_id: Optional[str] = None,
        *,
        max_chars: int = 20_000,
        max_images: int = 4,
    ) -> Union[str, dict[str, Any]]:
        """Returns the outcome as the result of a language model's tool call.

        The text is that of `str(outcome)`. What failed is marked as an error where the API can.
        Images are attached where it takes them, if they are images, of at most 5 MB in base64.
        An outcome with `outputs` is told in their order. So that a long output is not even sent,
        run the code with `max_output_chars=…, answer={"format": "notebook"}`.

        Args:
            format: `text`: a string. `openai-chat`: a message of role `tool`, without images.
                `openai-responses`: a `function_call_output`. `anthropic`: a `tool_result` block.
                `mcp`: a `CallToolResult` of the Model Context Protocol.
            call_id: The id of the model's tool call; `text` and `mcp` have none.
            max_chars: The longest text. Of a longer one the middle is left out, which it says; how
                the code ended stays.
            max_images: At most so many images are attached.
        """
        return _tool.tool_result(self, format, call_id, max_chars, max_images)

    def show(self, *, trusted: bool = False) -> None:
        """Shows output, displays, images, value and traceback in the running notebook cell.

        HTML is shown in a frame without scripts and network, because a page from tenant code could
        otherwise use the notebook's own kernel. For the same reason Markdown is shown as its
        source, and LaTeX is typeset only if it is plainly a formula. `trusted` shows everything as
        it is: Markdown and figures of plotly need that, and whoever wrote the code can then do
        whatever the notebook's user can.
        """
        _notebook.show(self, trusted=trusted)

    def _ipython_display_(self) -> None:
        self.show()

    @classmethod
    def _read(cls, reader: Reader) -> Outcome:
        value = reader.optional_object("result")
        exception = reader.optional_object("exception")
        kernel = reader.optional_object("kernel")
        files = [OutputFile._read(file) for file in reader.objects("files")]
        return cls(
            execution_id=reader.text("execution_id"),
            session_id=reader.text("session_id"),
            status=reader.required_text("status"),
            cause=reader.optional_text("cause"),
            detail=reader.text("detail"),
            state=reader.text("state"),
            rolled_back=reader.flag("rolled_back"),
            kernel=None if kernel is None else Kernel._read(kernel),
            session_created=reader.flag("session_created"),
            exit_code=reader.optional_integer("exit_code"),
            stdout=reader.text("stdout"),
            stdout_bytes=reader.integer("stdout_bytes"),
            stdout_truncated=reader.flag("stdout_truncated"),
            stderr=reader.text("stderr"),
            stderr_bytes=reader.integer("stderr_bytes"),
            stderr_truncated=reader.flag("stderr_truncated"),
            exception=None if exception is None else ExceptionInfo._read(exception),
            value=None if value is None else Value._read(value),
            displays=tuple(DisplayData._read(shown) for shown in reader.objects("displays")),
            images=tuple(Image._read(image) for image in reader.objects("images")),
            video_frames=tuple(Image._read(frame) for frame in reader.objects("video_frames")),
            cuts=tuple(TextCut._read(cut) for cut in reader.objects("cuts")),
            outputs=tuple(output.fields for output in reader.objects("outputs")),
            files={file.name: file for file in files},
            files_changed=tuple(
                ChangedFile._read(file) for file in reader.objects("files_changed")
            ),
            files_changed_more=reader.flag("files_changed_more"),
            duration_ms=reader.number("duration_ms"),
            usage=Usage._read(reader.object("usage")),
            audit_events=reader.optional_sizes("audit_events"),
            prints=reader.optional_lists("prints"),
        )


def _raised(outputs: tuple[Mapping[str, Any], ...]) -> Optional[ExceptionInfo]:
    """Returns the exception of an outcome that is told as a notebook's outputs."""
    for output in outputs:
        if output.get("output_type") == "error":
            trace = "\n".join(map(str, output.get("traceback") or ()))
            return ExceptionInfo(str(output.get("ename")), str(output.get("evalue")), trace)
    return None


_ERRORS: dict[str, type[errors.ExecutionError]] = {
    "timed_out": errors.TimedOut,
    "interrupted": errors.Interrupted,
    "killed": errors.Killed,
    "rejected": errors.Rejected,
}


@dataclass(frozen=True)
class ExecutionSummary:
    """An execution in a list."""

    id: str
    kind: ExecutionKind
    """`code` or `command`."""
    state: ExecutionState
    """`queued`, `running` or `done`."""
    status: Optional[Status]
    """How it ended; None until it has."""
    queued_at: datetime
    started_at: Optional[datetime]
    """None before it runs, and if it never did."""
    ended_at: Optional[datetime]
    """None until it has ended."""

    @classmethod
    def _read(cls, reader: Reader) -> ExecutionSummary:
        return cls(
            id=reader.required_text("id"),
            kind=reader.text("kind"),
            state=reader.required_text("state"),
            status=reader.optional_text("status"),
            queued_at=reader.time("queued_at"),
            started_at=reader.optional_time("started_at"),
            ended_at=reader.optional_time("ended_at"),
        )


@dataclass(frozen=True)
class Execution:
    """The state of an execution."""

    state: ExecutionState
    """`queued`, `running` or `done`."""
    outcome: Optional[Outcome]
    """None until done. For streamed executions it may have only the first 256 KiB each of stdout
    and stderr."""

    @property
    def done(self) -> bool:
        return self.state == "done"

    @classmethod
    def _read(cls, reader: Reader) -> Execution:
        outcome = reader.optional_object("outcome")
        return cls(
            reader.required_text("state"), None if outcome is None else Outcome._read(outcome)
        )
