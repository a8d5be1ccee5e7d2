"""Counts the work of tenant code in ticks, and ends it at a limit, by `sys.monitoring` (PEP 669).

A tick is a backward jump, the start of a function, or the resumption of a generator or coroutine.
Code in C has none. All threads count together. Over the limit each further tick raises, so that
code which catches the exception does not go on.

Counted by the agent's library where there is that, and else by Python, with the same counts.
"""

import work_native
from guard import TOOLS, Any, interruptible, monitoring, sys
from policy_errors import WorkLimitExceeded
from tenant_code import is_of_execution, is_tenants

# Those that Python's documentation gives no purpose come first.
TOOL_ORDER = (3, 4, 0, 1, 2, 5)

getframe: Any = sys._getframe


class State:
    limit = 0
    # The number of ours among the tools of `sys.monitoring`.
    tool: Any = None
    counter: Any = None


state = State()


class Counter:
    """Counts in Python."""

    def __init__(self, limit):
        self.left, self.exceeded = limit, False
        # File names of tenant code.
        self.names: set = set()

    @interruptible
    def start(self, code, offset):
        return self.tick(code.co_filename)

    @interruptible
    def jump(self, code, offset, destination):
        return monitoring.DISABLE if destination > offset else self.tick(code.co_filename)

    @interruptible
    def tick(self, name):
        if name not in self.names:
            if not is_tenants(getframe().f_back.f_back):
                return monitoring.DISABLE
            # Other names in angle brackets may be those of libraries' code, too.
            if name[:1] != "<" or is_of_execution(name):
                self.names.add(name)
        if self.left == 0:
            self.exceeded = True
            raise WorkLimitExceeded
        self.left -= 1
        return None


@interruptible
def is_tenants_code(code):
    """Asked by the library, which has no frame of its own."""
    return is_tenants(getframe().f_back)


def begin(limit):
    if monitoring is None:
        text = "max_work needs Python 3.12 or later; this environment has %d.%d"
        raise RuntimeError(text % sys.version_info[:2])
    state.limit = WorkLimitExceeded.limit = limit
    state.counter = work_native.counter(limit, WorkLimitExceeded, is_tenants_code)
    if state.counter is None:
        state.counter = Counter(limit)
    free = [tool for tool in TOOL_ORDER if tool in TOOLS and monitoring.get_tool(tool) is None]
    if not free:
        raise RuntimeError("max_work needs a tool of sys.monitoring, and all are in use")
    state.tool = free[0]
    monitoring.use_tool_id(state.tool, "vivarium")
    for event, callback in callbacks().items():
        monitoring.register_callback(state.tool, event, callback)
    monitoring.set_events(state.tool, sum(callbacks()))


def callbacks():
    events = monitoring.events
    return {
        events.PY_START: state.counter.start,
        events.PY_RESUME: state.counter.start,
        events.JUMP: state.counter.jump,
    }


def end():
    tool = state.tool
    if tool is None:
        return
    if monitoring.get_tool(tool) == "vivarium":
        monitoring.set_events(tool, 0)
        for event in callbacks():
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    state.tool = None


def noted():
    return state.limit - state.counter.left if state.counter is not None else 0


def is_exceeded():
    return state.counter is not None and bool(state.counter.exceeded)


def exceeded(failure):
    """The exception to report, whatever code made of the one it got."""
    if type(failure) is WorkLimitExceeded:
        return failure
    error = WorkLimitExceeded()
    error.__context__ = failure
    return error
