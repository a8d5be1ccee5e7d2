"""Answers calls of tools in tasks, beside the stream that tells of them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from .._core import tools
from .._core.calls import Calls
from .._core.tools import MOST_AT_ONCE, Tool, ToolSet
from ..events import Call


class TaskAnswerer:
    """One task for each call that is open. Functions that are no coroutines run in threads."""

    def __init__(self, calls: Calls, tools: ToolSet) -> None:
        self._calls = calls
        self._tools = tools
        self._tasks: set[asyncio.Task[None]] = set()
        # Of its own: the event loop's has as few as five, for all that wait at once.
        self._threads = ThreadPoolExecutor(MOST_AT_ONCE, "vivarium-tool")
        self._is_closed = False

    def begin(self, call: Call) -> None:
        task = asyncio.ensure_future(self._answer(call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, call: Call) -> None:
        tool = self._tools.by_name.get(call.tool)
        fields = tools.unknown(call) if tool is None else await self._call(tool, call)
        await tools.answer(self._calls, call, fields)

    async def _call(self, tool: Tool, call: Call) -> bytes:
        if not tools.is_async(tool):
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, tools.call_blocking, tool, call
            )
        try:
            return tools.result(await tool.function(**call.arguments))
        except asyncio.CancelledError as error:
            # Of something that the function awaits, or of this task.
            if self._is_closed:
                raise
            return tools.failure(error)
        except Exception as error:
            return tools.failure(error)

    def close(self) -> None:
        self._is_closed = True
        self._threads.shutdown(wait=False)
        for task in self._tasks:
            task.cancel()
