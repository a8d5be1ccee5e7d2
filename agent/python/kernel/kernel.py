"""The Python kernel: runs one session's code, one execution at a time, as `__main__`.

The agent starts it as `python -s -P -c` with bootstrap.py, which loads loader.py from a memfd,
which loads this file. Descriptors: 0 is /dev/null, 1 and 2 are pipes that the agent reads, 3 is
the control socket (wire.py). The working directory is the workdir.

It must never
- be relied on to contain user code. That code can reach all of the kernel (frames, gc, ctypes); the
  sandbox contains it. The kernel keeps the results of honest code right, and the session usable
  after odd, broken or hostile code.
- import at start-up what the interpreter has not loaded by itself: a cold start is measured in
  milliseconds. `guard.load` imports the rest later, and never from the workdir.
- raise an interrupt in its own code (guard.py), or let a forked child return into its loop.

Decisions:
- A final expression's value, if not None, becomes `_`, unless user code assigned `_` itself
  (interactive.py). It has the representations that IPython's conventions give it (render.py).
- A request about code (assistance.py) waits its turn like an execution, and changes nothing.
- `sys.stdout` and `sys.stderr` are the same objects for the life of the kernel, since a logging
  handler keeps its stream. A replacement by user code stays too, as in IPython, until it is closed,
  detached or None; then the originals come back.
- Top-level `await` runs on one event loop per session, which runs only during such code.
- `from __future__` statements apply to later executions too, as at an interactive prompt.
- A trace or profile function, and events of `sys.monitoring`, end with their execution.
"""

from posix import _exit, getpid, write

import compiler
import guard
import import_hooks
import interactive
import packages
import report
import source_cache
import streams
import wire
from classes import type_name
from compiler import ONLY_AST, compile_cell, is_silenced, run_compiled
from guard import Any, call_user, raised_by_user
from wire import number, send, string

# Types with no richer representation than their repr, which runs no user code.
PLAIN_TYPES = {int, float, complex, bool, str, bytes}

# How many main loops are nested in each other: see `serve_always`.
NESTED_LOOPS = 8
# How often the kernel tries to describe an exception.
DESCRIBE_ATTEMPTS_MAX = 5


class Execution:
    """How far the first request has come, and its outcome.

    Each step is one assignment or can be taken twice: the user's signal handlers raise anywhere.
    """

    started = False
    # The VALUE frame, in pieces, or the exception.
    value: "tuple | None" = None
    # Whether it may call functions of the client's.
    has_tools = False
    # The part that applies its policy, if it has one.
    policy: Any = None
    is_work_exceeded = False
    failure: "BaseException | None" = None
    # The first exception raised in the kernel: it is reported instead of any other outcome.
    kernel_error: "BaseException | None" = None
    # The frames that report this, and how often they were encoded.
    answer: "tuple | None" = None
    attempts = 0


class State:
    execution = Execution()
    has_ast_types = False
    max_result_bytes = wire.RESULT_MAX_BYTES
    # Of the last execution.
    filename = ""


state = State()


def main():
    """Serves executions until the agent closes the control socket."""
    guard.start()
    packages.start()
    streams.start()
    import_hooks.start()
    interactive.start()
    send(wire.READY)
    serve_always(NESTED_LOOPS)


def serve_always(depth):
    """Serves frames, whatever the user's signal handlers or threads raise in the kernel.

    The loop around this one catches what is raised outside of this loop's `try`.
    """
    while True:
        try:
            if depth > 1:
                serve_always(depth - 1)
            while True:
                serve()
        except BaseException as error:
            if wire.state.requests and state.execution.kernel_error is None:
                state.execution.answer = None
                state.execution.kernel_error = error
            # `sys.monitoring` may have raised it as a kernel function started.
            for tool in guard.TOOLS:
                try:
                    guard.set_events(tool, 0)
                except BaseException:
                    pass


def serve():
    """Serves one frame, or goes on with the execution that it was serving."""
    if not wire.state.requests:
        guard.restore_signal_mask()
        state.execution = Execution()
        wire.receive()
    kind, payload = wire.state.requests[0]
    if kind == wire.CONFIG:
        state.max_result_bytes = int.from_bytes(payload, "little")
        # The agent sends a value's repr on twice, as such and as text/plain.
        half = state.max_result_bytes // 2
        wire.state.max_text_bytes = min(wire.TEXT_MAX_BYTES, max(half, 256))
        wire.answer(())
        return
    if kind >= wire.CHECK_IMAGE:
        import kernel_image

        kernel_image.serve(kind, payload)
        return
    number, execution = payload[:8], state.execution
    if not execution.started and execution.kernel_error is None:
        execution.started = True
        execute(execution, kind, number, payload[8:])
    finish(execution, number)
    if not state.has_ast_types:
        # The first compile() to an AST creates Python's 120 node types, which takes a millisecond.
        # By now the first execution has its answer, so it did not wait for this.
        state.has_ast_types = True
        compile("0", "", "eval", ONLY_AST, True)


def execute(execution, kind, number, request):
    """Runs one execution, up to its value or exception."""
    guard.state.interrupted = False
    guard.state.running = True
    wire.state.bytes_left = state.max_result_bytes
    try:
        # From here on an interrupt is for this code: the agent holds it back until this frame.
        send(wire.STARTED, number)
        if kind == wire.EXECUTE:
            # Before displays read the socket too, over which the pipes come.
            if int.from_bytes(request[12:16], "little"):
                begin_calls(execution)
            items, chars, depth = (
                int.from_bytes(request[at : at + 4], "little") for at in (0, 4, 8)
            )
            vars(wire.state).update(
                execution_number=number, max_items=items, max_chars=chars, max_depth=depth
            )
            filename, cwd, variables, policy, source = wire.parse_execute(request[16:])
            number = int.from_bytes(number, "little")
            if policy:
                begin_policy(execution, policy)
            if cwd or variables:
                import surroundings

                with surroundings.Surroundings(cwd, variables):
                    execution.value = run(number, filename, source)
            else:
                execution.value = run(number, filename, source)
        else:
            cursor = int.from_bytes(request[:4], "little")
            execution.value = assist(kind, request[8:].decode(), cursor)
    except BaseException as error:
        execution.failure = error
    if execution.policy is not None:
        end_policy(execution)
    if kind == wire.EXECUTE and guard.state.post_execute:
        run_post_execute(execution)


def finish(execution, number):
    """Reports the outcome of an execution."""
    guard.stop_tracing()  # A repr may have started tracing again.
    # An interrupt that came too late for this code is not for the next.
    guard.state.interrupted = False
    if getpid() != guard.state.pid:
        leave_child(execution.failure if execution.kernel_error is None else execution.kernel_error)
    if execution.kernel_error is not None:
        guard.block_signals()  # A timer's handler would raise again and again.
    if execution.policy is not None:
        end_policy(
            execution
        )  # Again: what the user's signal handlers raise may have kept it from that.
    if execution.answer is None:
        execution.attempts += 1
        execution.answer = encode_outcome(execution, number)
    if execution.has_tools:
        end_calls()
    streams.flush()
    streams.restore_streams()
    guard.state.running = False
    guard.restore()
    wire.answer(execution.answer)


def encode_outcome(execution, number):
    """The frames that end an execution, in pieces."""
    completion, outcome, failure = wire.OK, (), execution.failure
    if execution.kernel_error is not None:
        failure = report.chain(execution.kernel_error, failure)
    if failure is not None:
        interrupted = issubclass(type(failure), KeyboardInterrupt)
        completion = wire.INTERRUPTED if interrupted else wire.ERROR
        if execution.is_work_exceeded and not interrupted:
            completion = wire.WORK_LIMIT
        # Without this bound an exception that can not be described would be raised for ever.
        if execution.attempts <= DESCRIBE_ATTEMPTS_MAX:
            outcome = wire.frame(wire.EXCEPTION, number, *report.describe(failure))
    elif execution.value is not None:
        kind, *parts = execution.value
        outcome = wire.frame(kind, number, *parts)
    if execution.policy is not None:
        text = execution.policy.account()
        account = wire.frame(wire.ACCOUNT, number, wire.number(len(text)), text)
        outcome = (*outcome, *account)
    return (*outcome, *wire.frame(wire.DONE, number, bytes([completion])))


def begin_policy(execution, text):
    import policy

    policy.reset()
    execution.policy = policy
    policy.begin(text)


def end_policy(execution):
    """Takes off its policy. What code made of too much work does not count."""
    execution.policy.end()
    if execution.policy.is_exceeded() and type(execution.failure) is not KeyboardInterrupt:
        execution.is_work_exceeded = True
        execution.failure = execution.policy.exceeded(execution.failure)


def begin_calls(execution):
    """Takes the pipes of an execution that may call functions of the client's."""
    import tool_module

    execution.has_tools = True
    tool_module.begin()


def end_calls():
    import tool_module

    tool_module.end()


def run_post_execute(execution):
    """Calls the functions that wait for the end of an execution."""
    # A client that interrupts an execution waits for its end.
    if type(execution.failure) is KeyboardInterrupt or getpid() != guard.state.pid:
        return
    try:
        for function in list(guard.state.post_execute):
            function()
    except KeyboardInterrupt as error:
        if execution.failure is None:
            execution.failure = error
    except BaseException:
        pass


def run(number, filename, source):
    """Runs a source. Returns the VALUE frame of its final expression, in pieces, or None."""
    if source.startswith("\ufeff"):
        source = source[1:]
    name = "<execution %d>" % number
    if filename or state.filename:
        import script_name

        name, state.filename = script_name.begin(filename) or name, filename
    evicted = source_cache.add(number, name, source)
    interactive.note_source(number, source_cache.sources.get(name, ""), evicted)
    packages.refresh()
    body, last = compile_cell(name, source)
    try:
        value = run_compiled(body, last, vars(guard.main_module))
    finally:
        guard.stop_tracing()
    if value is None or getpid() != guard.state.pid or is_silenced(source):
        return None
    policy = state.execution.policy
    if policy is not None and not policy.shows_value():
        return None
    if policy is None or policy.keeps_value():
        interactive.note_value(number, value)
    return value_frame(value)


def value_frame(value):
    """The VALUE frame of a value, in pieces."""
    text: str | None = None
    representations: tuple = ()
    if type(value) in PLAIN_TYPES:
        try:
            text = call_user(repr, value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if raised_by_user(error):
                raise  # By a signal handler: the repr of these types runs no other user code.
            # `render.of_value` meets the exception again and puts a text in its place.
    if text is None:
        import render

        text, representations = render.of_value(value)
    text = wire.repr_string(text)
    name = string(type_name(type(value)) or "object", wire.NAME_MAX_BYTES)
    wire.state.bytes_left -= len(text)
    if not representations:
        return (wire.VALUE, text, name, number(0))
    wire.state.bytes_left -= wire.size_of(representations)
    return (wire.VALUE, text, name, *wire.encode_representations(representations))


def assist(kind, source, cursor):
    """Answers a request about code. Returns a VALUE frame without a type, in pieces."""
    import assistance

    argument = compiler.flags() if kind == wire.IS_COMPLETE else min(cursor, len(source))
    answer = assistance.answer(kind, source, argument)
    return wire.json_value(answer.encode("utf-8", "backslashreplace"))


def leave_child(failure):
    """Ends a process that user code forked and that returned into the kernel."""
    status = 0
    if failure is not None:
        # Ends as Python does: exit() without argument or with a number prints nothing.
        code = getattr(failure, "code", None) if type(failure) is SystemExit else failure
        status = 0 if code is None else code & 0xFF if type(code) is int else 1
        try:
            if code is failure:
                text = report.format_traceback(failure, report.strip_kernel(failure))
            else:
                text = "" if code is None or type(code) is int else "%s\n" % (code,)
            write(2, text.encode("utf-8", "backslashreplace"))
        except BaseException:
            pass
    streams.flush()
    _exit(status)
