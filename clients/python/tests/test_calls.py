"""Functions of the client's that code calls: how they are declared, and answered."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import enum
import functools
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal, NewType, Optional, TypedDict, Union

import pytest

from daemon import Daemon as RealDaemon
from fake import Fake, Reply, Seen, js, problem
from samples import DONE, sse
from vivarium_client import (
    AsyncClient,
    Call,
    CallEnded,
    Client,
    InvalidRequest,
    Session,
    Tool,
    ToolError,
)
from vivarium_client._core.tools import schema_of_type

STREAMED = {"Content-Type": "text/event-stream"}


@dataclasses.dataclass
class Point:
    x: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Range(TypedDict):
    first: int


class Adds:
    def __call__(self, one: int) -> int:
        return one + 1


class Node(TypedDict):
    nodes: list[Node]


Table = NewType("Table", str)


def look(table: str, limit: int = 10, *, where: Optional[dict[str, Any]] = None) -> list[Any]:
    """Looks up rows.

    All of a table.

    Args:
        table: Its name.
        limit: The most
            rows.

    Returns:
        The rows.
    """
    return [table, limit, where]


def test_a_function_declares_itself() -> None:
    tool = Tool(look, timeout=1.5, max_calls=3)
    assert tool._declared() == {
        "name": "look",
        "description": "Looks up rows.\n\nAll of a table.",
        "parameters": {
            "type": "object",
            "properties": {
                "table": {"type": "string", "description": "Its name."},
                "limit": {"type": "integer", "description": "The most rows."},
                "where": {
                    "anyOf": [{"type": "object", "additionalProperties": {}}, {"type": "null"}]
                },
            },
            "required": ["table"],
            "additionalProperties": False,
        },
        "timeout_ms": 1500,
        "max_calls": 3,
    }
    assert list(tool._declared()["parameters"]["properties"]) == ["table", "limit", "where"]
    other = Tool(look, name="find", description="Finds.", parameters={"type": "object"})
    assert other._declared() == {
        "name": "find",
        "description": "Finds.",
        "parameters": {"type": "object"},
    }


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["red", "blue"], {"enum": ["red", "blue"]}),
        (Table, {"type": "string"}),
        (
            Range,
            {"type": "object", "properties": {"first": {"type": "integer"}}, "required": ["first"]},
        ),
        (object, {}),
    ],
)
def test_annotations_become_schemas(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of_type(hint) == schema


def test_objects_that_can_be_called_declare_themselves() -> None:
    properties = Tool(Adds(), name="add").parameters["properties"]
    assert properties == {"one": {"type": "integer"}}
    assert Tool(Adds().__call__, name="add").parameters["properties"] == properties


def test_what_can_not_be_called_by_name_is_refused() -> None:
    def positional(one: int, /) -> None: ...

    def many(*values: int) -> None: ...

    def misspelt(one: Intt) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="positional"):
        Tool(positional)
    with pytest.raises(TypeError, match=r"\*values is positional"):
        Tool(many)
    with pytest.raises(TypeError, match=r"annotations of misspelt.*'Intt' is not defined"):
        Tool(misspelt)
    assert Tool(misspelt, parameters={"type": "object"}).parameters == {"type": "object"}
    for hint, message in [
        (Point, "Point: tools get JSON, so annotate a TypedDict"),
        (Optional[Color], "Color: tools get JSON"),
        (list[datetime.date], "date: tools get JSON"),
        (set[int], "set: tools get JSON"),
        (bytes, "bytes: tools get JSON"),
        (Node, "Node contains itself"),
    ]:
        with pytest.raises(TypeError, match=message):
            schema_of_type(hint)
    with pytest.raises(TypeError, match="has a name"):
        Tool(functools.partial(look, "t"))
    partial = Tool(functools.partial(look, "t", limit=1), name="look")
    assert partial.parameters["properties"]["limit"] == {"type": "integer"}
    session = Client("http://127.0.0.1:1").attach("demo")
    with pytest.raises(TypeError, match="a list"):
        session.execute("1", tools=look)  # type: ignore[arg-type]


class Daemon:
    """Streams calls, and the end once there were as many answers as calls, or `answers`."""

    def __init__(
        self, fake: Fake, *calls: tuple[str, dict[str, Any]], answers: Optional[int] = None
    ) -> None:
        self.calls = calls
        self.left = len(calls) if answers is None else answers
        self.lock = threading.Lock()
        self.answers: dict[str, Any] = {}
        self.all = threading.Event()
        self.refusal: Optional[Reply] = None
        fake.answer = self.answer

    def answer(self, seen: Seen) -> Reply:
        if "/calls/" in seen.target:
            with self.lock:
                refusal, self.refusal = self.refusal, None
                if refusal is None:
                    self.answers[seen.target.rpartition("/")[2]] = seen.json()
                self.left -= 1
                if self.left == 0:
                    self.all.set()
            return refusal or Reply(204, b"")
        if seen.method == "GET":
            # The rest, which the client asks for as the first connection ended.
            assert self.all.wait(30)
            return Reply(200, sse(9, "done", DONE), STREAMED)
        ids = {"execution_id": "7", "session_id": "demo"}
        body = sse(1, "started", ids)
        for number, (tool, arguments) in enumerate(self.calls, 2):
            call = {"call_id": str(number - 1), "tool": tool, "arguments": arguments}
            body += sse(number, "call", {**ids, **call, "expires_at": "2026-01-01T12:00:00Z"})
        return Reply(200, body, STREAMED)


def test_calls_are_answered_by_functions(fake: Fake, client: Client) -> None:
    def fail() -> None:
        raise ToolError("no such table", {"tables": []})

    def odd() -> object:
        return object()

    async def wait(n: int) -> int:
        return n + 1

    daemon = Daemon(
        fake,
        ("look", {"table": "t"}),
        ("fail", {}),
        ("odd", {}),
        ("wait", {"n": 1}),
        ("look", {}),
        ("none", {}),
    )
    tools: list[Callable[..., Any]] = [look, fail, odd, wait]
    outcome = client.attach("demo").execute("code", tools=tools, tools_as_globals=True)
    assert outcome.ok
    sent = fake.seen[0].json()
    assert [tool["name"] for tool in sent["tools"]] == ["look", "fail", "odd", "wait"]
    assert sent["tools_as_globals"] is True
    assert daemon.answers["1"] == {"result": ["t", 10, None]}
    assert daemon.answers["2"] == {"error": {"message": "no such table", "data": {"tables": []}}}
    assert "no JSON" in daemon.answers["3"]["error"]["message"]
    assert daemon.answers["4"] == {"result": 2}
    assert daemon.answers["5"]["error"]["message"].startswith("TypeError: ")
    assert "no tool 'none'" in daemon.answers["6"]["error"]["message"]


def test_answers_are_text_as_it_is(fake: Fake, client: Client) -> None:
    def wide() -> str:
        return "é" * 400_000

    def lone() -> str:
        return "\ud800"

    def fail() -> None:
        raise ToolError("no \ud800", {"at": "\ud800"})

    daemon = Daemon(fake, ("wide", {}), ("lone", {}), ("fail", {}))
    assert client.attach("demo").execute("code", tools=[wide, lone, fail]).ok
    assert daemon.answers["1"] == {"result": wide()}
    sizes = [len(seen.body) for seen in fake.seen if seen.target.endswith("/calls/1")]
    assert max(sizes) < 1 << 20
    assert "no JSON" in daemon.answers["2"]["error"]["message"]
    assert daemon.answers["3"] == {"error": {"message": "no ?"}}


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_whatever_a_function_raises_is_an_answer(
    fake: Fake, client: Client, raised: type[BaseException]
) -> None:
    def blocking() -> None:
        raise raised("enough")

    async def awaited() -> None:
        raise asyncio.CancelledError("enough")

    async def asynchronously() -> None:
        async with AsyncClient(fake.url) as other:
            assert (await other.attach("demo").execute("code", tools=[blocking, awaited])).ok

    for run in (
        lambda: client.attach("demo").execute("code", tools=[blocking, awaited]),
        lambda: asyncio.run(asynchronously()),
    ):
        daemon = Daemon(fake, ("blocking", {}), ("awaited", {}))
        run()
        assert daemon.answers == {
            "1": {"error": {"message": f"{raised.__name__}: enough"}},
            "2": {"error": {"message": "CancelledError: enough"}},
        }


def test_a_stream_tells_of_calls_and_answers_them(fake: Fake, client: Client) -> None:
    daemon = Daemon(fake, ("look", {"table": "t"}))
    with client.attach("demo").stream("code", tools=[look]) as stream:
        events = list(stream)
    calls = [event for event in events if isinstance(event, Call)]
    assert [(call.call_id, call.tool, call.arguments) for call in calls] == [
        ("1", "look", {"table": "t"})
    ]
    assert daemon.answers == {"1": {"result": ["t", 10, None]}}


@pytest.mark.parametrize("refusal", [problem(410, "call_over"), problem(404, "unknown_call")])
def test_an_answer_that_comes_too_late_is_no_error(
    fake: Fake, client: Client, refusal: Reply
) -> None:
    daemon = Daemon(fake, ("look", {"table": "a"}), ("look", {"table": "b"}))
    daemon.refusal = refusal
    assert client.attach("demo").execute("code", tools=[look]).ok
    assert len(daemon.answers) == 1


def test_an_answer_that_the_daemon_does_not_take_is_an_error(fake: Fake, client: Client) -> None:
    daemon = Daemon(fake, ("look", {"table": "a"}), answers=2)
    daemon.refusal = problem(422, "invalid_field")
    assert client.attach("demo").execute("code", tools=[look]).ok
    assert "invalid_field" in daemon.answers["1"]["error"]["message"]


def test_tools_of_a_session_are_those_of_its_executions(fake: Fake, client: Client) -> None:
    def other() -> str:
        return "other"

    fake.answer = lambda seen: js({"id": "demo", **SESSION}, 201)
    session = client.session("demo", tools=[look])
    assert [tool["name"] for tool in fake.seen[0].json()["tools"]] == ["look"]
    daemon = Daemon(fake, ("look", {"table": "a"}), ("other", {}))
    assert session.execute("code", tools=[other]).ok
    assert [tool["name"] for tool in fake.seen[1].json()["tools"]] == ["other"]
    assert daemon.answers == {"1": {"result": ["a", 10, None]}, "2": {"result": "other"}}


async def _answered(url: str) -> None:
    async def wait(n: int) -> int:
        return n + 1

    async with AsyncClient(url) as client:
        outcome = await client.attach("demo").execute("code", tools=[look, wait])
        assert outcome.ok


def test_calls_are_answered_by_coroutines(fake: Fake) -> None:
    daemon = Daemon(fake, ("look", {"table": "t"}), ("wait", {"n": 1}))
    asyncio.run(_answered(fake.url))
    assert daemon.answers == {"1": {"result": ["t", 10, None]}, "2": {"result": 2}}


def test_code_calls_functions_of_this_process(session: Session) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    code = "from vivarium import tools\n[tools.add(n, b=1) for n in range(3)]"
    assert str(session.execute(code, tools=[add]).value) == "[1, 2, 3]"
    refused = session.execute("tools.add('x', 1)", tools=[add])
    assert refused.exception is not None
    assert refused.exception.type == "vivarium.ToolRefused"
    with session.stream("add(1, 2)", tools=[add], tools_as_globals=True) as stream:
        events = list(stream)
    kinds = [event for event in events if isinstance(event, (Call, CallEnded))]
    assert [type(event) for event in kinds] == [Call, CallEnded]
    assert isinstance(kinds[1], CallEnded)
    assert kinds[1].outcome == "result"


def test_code_calls_functions_at_once(session: Session) -> None:
    barrier = threading.Barrier(4)

    def meet(n: int) -> int:
        barrier.wait(30)
        return n

    code = (
        "import asyncio\nfrom vivarium import tools\n"
        "await asyncio.gather(*(tools.aio.meet(n=n) for n in range(4)))"
    )
    assert str(session.execute(code, tools=[meet]).value) == "[0, 1, 2, 3]"


def test_a_run_calls_functions(real: Client) -> None:
    outcome = real.run("from vivarium import tools; tools.look('t')", tools=[look], keep="head")
    assert json.loads(str(outcome.value).replace("'", '"').replace("None", "null")) == [
        "t",
        10,
        None,
    ]


async def _asked(url: str, session_id: str) -> None:
    async with AsyncClient(url) as client:
        for ask in (
            client.session(tool_servers=SERVERS),
            client.run("1", tool_servers=SERVERS),
            client.attach(session_id).execute("1", tool_servers=SERVERS),
        ):
            with pytest.raises(InvalidRequest) as refused:
                await ask
            assert str(refused.value.field).startswith("tool_servers")


def test_servers_of_tools_are_asked_for(daemon: RealDaemon, real: Client, session: Session) -> None:
    for ask in (
        lambda: real.session(tool_servers=SERVERS),
        lambda: real.run("1", tool_servers=SERVERS),
        lambda: session.execute("1", tool_servers=SERVERS),
        lambda: list(session.stream("1", tool_servers=SERVERS)),
    ):
        with pytest.raises(InvalidRequest) as refused:
            ask()
        assert str(refused.value.field).startswith("tool_servers")
    asyncio.run(_asked(daemon.url, session.id))
    with pytest.raises(TypeError, match="a list"):
        session.execute("1", tool_servers="none-of-these")
    assert session.execute("1", tool_servers=[]).ok


SERVERS = ["none-of-these"]

SESSION: dict[str, Any] = {
    "tenant": "default",
    "environment": "default",
    "state": "idle",
    "protection": [],
    "limits": {},
    "network": "none",
    "usage": {"cpu_ms": 0.0, "memory_bytes": None, "memory_peak_bytes": 0, "executions": 0},
    "created_at": "2026-01-01T12:00:00Z",
    "last_used_at": "2026-01-01T12:00:00Z",
    "expires_at": "2026-01-01T12:10:00Z",
    "metadata": {},
}
