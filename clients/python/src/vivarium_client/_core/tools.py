"""Functions of this process that code in a session can call: how they are declared, and answered.

Arguments come from code in the session: they are what a tool's schema allows, and untrusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import inspect
import json
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, Literal, Optional, Protocol, Union, get_args, get_origin

from ..errors import ApiError, InvalidRequest, ToolError, TransportError
from ..events import Call
from . import requests
from .calls import Calls

MOST_AT_ONCE = 64
"""The calls that may wait at a time in one execution."""

_NAMES: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    None: "null",
}
_ARRAYS = (list, tuple, Sequence, Iterable)
# Python's own, and those of `collections.abc`.
_OBJECTS = (dict, Mapping)
_UNIONS = (Union, getattr(types, "UnionType", Union))


class Tool:
    """A function that code in a session can call: `from vivarium import tools; tools.NAME(…)`.

    Args:
        function: What is called, with arguments by name; a coroutine function is awaited. Its
            result has to be JSON. What it raises is raised in the session, as
            `vivarium.ToolError`: raise `ToolError` to choose the message.
        name: An identifier; the function's own name if not given.
        description: The first part of the function's docstring if not given.
        parameters: JSON Schema of the arguments, an object; from the function's annotations if
            not given. The daemon refuses calls that it does not allow.
        timeout: Seconds in which a call has to be answered.
        max_calls: The most calls in one execution.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: Optional[str] = None,
        description: Optional[str] = None,
        parameters: Optional[Mapping[str, Any]] = None,
        timeout: Optional[float] = None,
        max_calls: Optional[int] = None,
    ) -> None:
        self.function = function
        self.name = str(name or getattr(function, "__name__", ""))
        if not self.name:
            raise TypeError("a tool has a name: give Tool(function, name=…)")
        summary, of_parameters = _read_docstring(inspect.getdoc(function) or "")
        self.description = summary if description is None else description
        if parameters is None:
            parameters = _schema_of(function, of_parameters)
        self.parameters: Mapping[str, Any] = parameters
        self.timeout = timeout
        self.max_calls = max_calls

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _declared(self) -> dict[str, Any]:
        """As a request has it."""
        fields = {
            "name": self.name,
            "description": self.description or None,
            "parameters": self.parameters,
            "timeout_ms": requests.milliseconds(self.timeout),
            "max_calls": self.max_calls,
        }
        return {name: value for name, value in fields.items() if value is not None}


Tools = Iterable[Union[Tool, Callable[..., Any]]]
"""Functions that code can call."""


class ToolSet:
    """The tools of an execution, by name."""

    def __init__(self, tools: Optional[Tools], others: Optional[ToolSet] = None) -> None:
        if callable(tools):
            raise TypeError("tools is a list of functions")
        made = [tool if isinstance(tool, Tool) else Tool(tool) for tool in tools or ()]
        self.own = made
        self.by_name: dict[str, Tool] = dict(others.by_name) if others else {}
        self.by_name.update((tool.name, tool) for tool in made)

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def declared(self) -> Optional[list[dict[str, Any]]]:
        """The tools of the request itself: its session has the others."""
        return [tool._declared() for tool in self.own] or None


class Answerer(Protocol):
    """Answers calls beside the stream that tells of them."""

    def begin(self, call: Call) -> None:
        """Begins to answer a call."""

    def close(self) -> None:
        """There are no more calls."""


async def answer(calls: Calls, call: Call, fields: bytes) -> None:
    """Sends an answer. Nothing becomes of one that comes too late."""
    request = requests.answer_call(call.session_id, call.execution_id, call.call_id, fields)
    try:
        await calls.do(request)
    except InvalidRequest as error:
        # Too large, or nested too deep.
        request = requests.answer_call(
            call.session_id, call.execution_id, call.call_id, failure(error)
        )
        with contextlib.suppress(ApiError, TransportError):
            await calls.do(request)
    except (ApiError, TransportError):
        # The call waits no more, or ends by its time.
        pass


def unknown(call: Call) -> bytes:
    """The answer to a call of a tool that there is not."""
    return failure(LookupError(f"there is no tool {call.tool!r} here"))


def result(value: object) -> bytes:
    """The answer with a result."""
    try:
        return _json({"result": value})
    except (TypeError, ValueError, RecursionError) as error:
        return failure(TypeError(f"the tool's result is no JSON: {error}"))


def failure(error: BaseException) -> bytes:
    """The answer that says what went wrong."""
    if isinstance(error, ToolError):
        fields: dict[str, Any] = {"message": str(error)}
        if error.data is not None:
            fields["data"] = error.data
        try:
            return _json({"error": fields})
        except (TypeError, ValueError, RecursionError):
            return _json({"error": {"message": _text(str(error))}})
    try:
        message = f"{type(error).__name__}: {error}"
    except Exception:  # Its own __str__ failed.
        message = type(error).__name__
    return _json({"error": {"message": _text(message)}})


def _text(message: str) -> str:
    """The message with `?` for lone surrogates, which are no text."""
    return message.encode(errors="replace").decode()


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def is_async(tool: Tool) -> bool:
    """Whether the tool's function is to be awaited."""
    function = tool.function
    call = getattr(function, "__call__", None)  # noqa: B004  (of an object with one)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def call_blocking(tool: Tool, call: Call) -> bytes:
    """Calls a tool in this thread, whatever its function is."""
    try:
        value = tool.function(**call.arguments)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        return result(value)
    except BaseException as error:
        # In a thread of its own nobody else hears of one: the code would wait for its time.
        return failure(error)


def _schema_of(function: Callable[..., Any], descriptions: Mapping[str, str]) -> dict[str, Any]:
    """JSON Schema of a function's parameters."""
    annotated = function
    while isinstance(annotated, functools.partial):
        annotated = annotated.func
    if not inspect.isroutine(annotated):
        annotated = type(annotated).__call__
    try:
        hints = typing.get_type_hints(annotated)
    except Exception as error:
        raise TypeError(
            f"the annotations of {annotated.__name__} cannot be read ({error}): "
            "give Tool(…, parameters=…)"
        ) from error
    properties: dict[str, Any] = {}
    required: list[str] = []
    takes_others = False
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_others = True
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{name} is positional, and tools are called by name")
        elif parameter.kind is parameter.VAR_POSITIONAL:
            raise TypeError(f"*{name} is positional, and tools are called by name")
        else:
            schema = schema_of_type(hints.get(name, Any))
            if name in descriptions:
                schema["description"] = descriptions[name]
            properties[name] = schema
            if parameter.default is parameter.empty:
                required.append(name)
    schema = {"type": "object", "properties": properties, "required": required}
    return schema if takes_others else {**schema, "additionalProperties": False}


def schema_of_type(hint: Any, within: tuple[Any, ...] = ()) -> dict[str, Any]:
    """JSON Schema of an annotation.

    A function gets values of JSON. Types that would have to be made of them are refused.
    """
    hint = getattr(hint, "__supertype__", hint)  # Of a NewType.
    origin = get_origin(hint) or hint
    if origin in _NAMES:
        return {"type": _NAMES[origin]}
    if isinstance(hint, type) and hasattr(hint, "__required_keys__"):
        return _schema_of_dict(hint, within)
    if isinstance(origin, type) and origin not in (Any, object, *_ARRAYS, *_OBJECTS):
        instead = "a TypedDict" if dataclasses.is_dataclass(hint) else "what JSON has"
        raise TypeError(f"{origin.__name__}: tools get JSON, so annotate {instead}")
    return _schema_of_generic(origin, get_args(hint), within)


def _schema_of_dict(kind: Any, within: tuple[Any, ...]) -> dict[str, Any]:
    """That of a `TypedDict`."""
    if kind in within:
        raise TypeError(f"{kind.__name__} contains itself: give Tool(…, parameters=…) with a $ref")
    members = typing.get_type_hints(kind)
    within = (*within, kind)
    return {
        "type": "object",
        "properties": {name: schema_of_type(hint, within) for name, hint in members.items()},
        "required": sorted(kind.__required_keys__),
    }


def _schema_of_generic(
    origin: Any, parts: tuple[Any, ...], within: tuple[Any, ...]
) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if origin is Literal:
        schema = {"enum": list(parts)}
    elif origin in _UNIONS:
        schema = {"anyOf": [schema_of_type(part, within) for part in parts]}
    elif origin in _ARRAYS:
        schema = {"type": "array"}
        items = [part for part in parts if part is not Ellipsis]
        if len(items) == 1:
            schema["items"] = schema_of_type(items[0], within)
    elif origin in _OBJECTS:
        schema = {"type": "object"}
        if parts:
            schema["additionalProperties"] = schema_of_type(parts[-1], within)
    return schema


_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_PARAMETER = re.compile(r"^\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The part before the sections of a docstring, and what it says of parameters."""
    summary: list[str] = []
    parameters: dict[str, str] = {}
    section, name = "", ""
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, name = heading[1], ""
        elif not section:
            summary.append(line)
        elif section in ("Args", "Arguments", "Parameters"):
            parameter = _PARAMETER.match(line)
            if parameter:
                name = parameter[1]
                parameters[name] = parameter[2].strip()
            elif name and line.strip():
                parameters[name] = f"{parameters[name]} {line.strip()}".strip()
    return "\n".join(summary).strip(), parameters
