"""The session's event loop, which runs only while code awaits at its top level."""

from guard import Any, call_user, load


class State:
    loop: Any = None


def run(coroutine):
    """Runs code that awaits at its top level. Returns its value."""
    asyncio = load("asyncio")
    if asyncio is None:
        coroutine.close()
        raise RuntimeError("top-level await needs asyncio, and another module has its name")
    if State.loop is None or State.loop.is_closed():
        State.loop = call_user(asyncio.new_event_loop)
    call_user(asyncio.set_event_loop, State.loop)
    task = call_user(State.loop.create_task, coroutine)
    try:
        return call_user(State.loop.run_until_complete, task)
    except BaseException as caught:
        error = caught
    try:
        if not task.done():
            # Interrupted: let the code clean up; its traceback then tells where it was.
            task.cancel()
            call_user(State.loop.run_until_complete, task)
        elif not task.cancelled():
            task.exception()  # Marks it as retrieved: asyncio would print it otherwise.
    except BaseException as unwinding:
        error.__context__ = unwinding
    raise error
