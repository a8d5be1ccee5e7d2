"""Answers calls of tools in threads, beside the stream that tells of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from .._core import tools
from .._core.calls import Calls
from .._core.tools import MOST_AT_ONCE, ToolSet
from .._core.transport import run
from ..events import Call


class ThreadAnswerer:
    """One thread for each call that is open."""

    def __init__(self, calls: Calls, tools: ToolSet) -> None:
        self._calls = calls
        self._tools = tools
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "vivarium-tool")

    def begin(self, call: Call) -> None:
        self._threads.submit(self._answer, call)

    def _answer(self, call: Call) -> None:
        tool = self._tools.by_name.get(call.tool)
        fields = tools.unknown(call) if tool is None else tools.call_blocking(tool, call)
        run(tools.answer(self._calls, call, fields))

    def close(self) -> None:
        self._threads.shutdown(wait=False)
