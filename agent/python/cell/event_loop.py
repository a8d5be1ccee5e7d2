"""The session's event loop, which runs only while code awaits at its top level."""

from guard import Any, call_user, load


class State:
    loop: Any = None


state = State()


def run(coroutine):
    """Runs code that awaits at its top level. Returns its value."""
    asyncio = load("asyncio")
    if asyncio is None:
        coroutine.close()
        raise RuntimeError("top-level await needs asyncio, and another module has its name")
    if state.loop is None or state.loop.is_closed():
        state.loop = call_user(asyncio.new_event_loop)
    call_user(asyncio.set_event_loop, state.loop)
    task = call_user(state.loop.create_task, coroutine)
    try:
        return call_user(state.loop.run_until_complete, task)
    except BaseException as caught:
        error = caught
    try:
        if not task.done():
            # Interrupted: let the code clean up; its traceback then tells where it was.
            task.cancel()
            call_user(state.loop.run_until_complete, task)
        elif not task.cancelled():
            task.exception()  # Marks it as retrieved: asyncio would print it otherwise.
    except BaseException as unwinding:
        error.__context__ = unwinding
    raise error
