"""The Python kernel: runs one session's code, one execution at a time, as `__main__`.

The agent starts it by bootstrap.py as `python -s -P -c`, which loads loader.py from a memfd and
with it this file. Descriptors: 0 is /dev/null, 1 and 2 are pipes that the agent reads, 3 is
the control socket (wire.py). The working directory is the workdir.

It must never
- be taken for what contains the tenant's code. That code can reach all of it (frames, gc,
  ctypes), and is held by the sandbox. What is done here keeps honest code's answers right, and
  a session usable after odd, broken or hostile code.
- import at start-up what the interpreter has not loaded by itself: a cold start is measured in
  milliseconds. What is needed later is loaded later, by `guard.load`, never from the workdir.
- raise an interrupt in itself (guard.py), or let a forked child return into its loop.

Decisions:
- A final expression's value, if not None, becomes `_`, unless the code gave `_` a value itself;
  see interactive.py. It is shown in the forms that IPython's conventions give it (render.py).
- A request to complete or inspect takes its turn like an execution, and changes nothing.
- Lines of IPython's syntax are looked at only in a source that is not Python (magics.py).
- `sys.stdout` and `sys.stderr` are the same objects for the life of the kernel (a logging
  handler keeps its stream). What the code puts in their place stays there too, as in IPython,
  until it is closed, detached or None; then the originals come back.
- Top-level `await` runs on one event loop per session, which runs only meanwhile.
- `from __future__` statements hold in later executions too, as at an interactive prompt.
- A trace or profile function, and events of `sys.monitoring`, end with their execution.
"""

from posix import _exit, getpid, write

import guard
import import_hooks
import interactive
import report
import source_cache
import streams
import wire
from classes import type_name
from guard import foreign, is_foreign, load
from wire import number, send, string

# Flags of compile(): CPython's Include/cpython/compile.h, the same since 3.8.
ONLY_AST = 0x400
TOP_LEVEL_AWAIT = 0x2000
# Of code objects, Include/cpython/code.h: CO_COROUTINE, and all of `from __future__`.
CO_COROUTINE = 0x80
CO_FUTURE = 0x1FE0000

# What has no richer form than its repr, and a repr that runs no tenant code.
PLAIN = {int, float, complex, bool, str, bytes}

# A longer source is compiled without the detour over Python's AST objects, which take some 700
# bytes and 5 microseconds for every short statement.
AST_MAX_CHARS = 256 << 10


# How many loops stand one around the other.
LOOPS = 8
# So often an exception may be described for an execution.
ATTEMPTS_MAX = 5


class Execution:
    """How far the first request has come, and how it came out.

    Each step is one assignment, or can be taken twice: tenants' handlers raise anywhere in it.
    """

    begun = False
    # Its VALUE frame, in pieces, or its exception.
    value = None
    failure = None
    # What was raised in the runner: the first such exception is told in place of all else.
    intruder = None
    # The frames that say all this, and how often they were made.
    answer, attempts = None, 0


class State:
    """What changes while the kernel lives."""

    execution = Execution()
    has_ast_types = False
    max_result_bytes = wire.RESULT_MAX_BYTES
    future_flags = 0
    loop = None


def main():
    """Serves executions until the agent closes the control socket."""
    guard.start()
    streams.start()
    import_hooks.start()
    interactive.start()
    send(wire.READY)
    serve_always(LOOPS)


def serve_always(loops):
    """Serves frames, whatever signal handlers of the tenant's or other threads raise here.

    What is raised in this loop itself, as it goes back, is caught by the loop around it.
    """
    while True:
        try:
            if loops > 1:
                serve_always(loops - 1)
            while True:
                serve()
        except BaseException as error:
            if wire.state.requests and State.execution.intruder is None:
                State.execution.answer = None
                State.execution.intruder = error
            # Raised by `sys.monitoring`, maybe, as it saw a function of ours start.
            for tool in guard.TOOLS:
                try:
                    guard.set_events(tool, 0)
                except BaseException:
                    pass


def serve():
    """Serves one frame, or goes on with the execution that it was at."""
    if not wire.state.requests:
        guard.unmask()
        State.execution = Execution()
        wire.receive()
    kind, payload = wire.state.requests[0]
    if kind == wire.CONFIG:
        State.max_result_bytes = int.from_bytes(payload, "little")
        # The agent sends a value's repr on twice, as such and as text/plain.
        half = State.max_result_bytes // 2
        wire.state.max_text_bytes = min(wire.TEXT_MAX_BYTES, max(half, 256))
        wire.answer(())
        return
    number, execution = payload[:8], State.execution
    if not execution.begun and execution.intruder is None:
        execution.begun = True
        execute(execution, kind, number, payload[8:])
    finish(execution, number)
    if not State.has_ast_types:
        # The first compile() to an AST makes Python's 120 types of nodes, which takes a
        # millisecond. The first execution has had its answer, and need not have waited for it.
        State.has_ast_types = True
        compile("0", "", "eval", ONLY_AST, True)


def execute(execution, kind, number, request):
    """Runs one execution, up to its value or exception."""
    guard.State.interrupted = False
    guard.State.running = True
    wire.state.room = State.max_result_bytes
    try:
        # From here on an interrupt is for this code: the agent holds it back until it hears this.
        send(wire.STARTED, number)
        if kind == wire.EXECUTE:
            wire.state.shown_for = number
            execution.value = run(int.from_bytes(number, "little"), request[4:].decode())
        else:
            cursor = int.from_bytes(request[:4], "little")
            execution.value = assist(kind, request[8:].decode(), cursor)
    except BaseException as error:
        execution.failure = error
    if kind == wire.EXECUTE and guard.State.at_end:
        end(execution)


def finish(execution, number):
    """Tells what came of an execution."""
    guard.stop_tracing()  # A repr may have started it again.
    # An interrupt that came too late for the code is not for what follows.
    guard.State.interrupted = False
    if getpid() != guard.State.pid:
        leave_child(execution.failure if execution.intruder is None else execution.intruder)
    if execution.intruder is not None:
        guard.mask()  # A timer's handler would raise again and again.
    if execution.answer is None:
        execution.attempts += 1
        execution.answer = answer_of(execution, number)
    streams.flush()
    streams.restore_streams()
    guard.State.running = False
    guard.restore()
    wire.answer(execution.answer)


def answer_of(execution, number):
    """The frames that end an execution, in pieces."""
    completion, outcome, failure = wire.OK, (), execution.failure
    if execution.intruder is not None:
        failure = report.chained(execution.intruder, failure)
    if failure is not None:
        interrupted = issubclass(type(failure), KeyboardInterrupt)
        completion = wire.INTERRUPTED if interrupted else wire.ERROR
        # An exception that can not even be described would be raised again, for ever.
        if execution.attempts <= ATTEMPTS_MAX:
            outcome = wire.frame(wire.EXCEPTION, number, *report.describe(failure))
    elif execution.value is not None:
        kind, *parts = execution.value
        outcome = wire.frame(kind, number, *parts)
    return (*outcome, *wire.frame(wire.DONE, number, bytes([completion])))


def end(execution):
    """Does what there is to do at the end of an execution."""
    # Whoever interrupts is waiting for the end.
    if type(execution.failure) is KeyboardInterrupt or getpid() != guard.State.pid:
        return
    try:
        for function in list(guard.State.at_end):
            function()
    except KeyboardInterrupt as error:
        if execution.failure is None:
            execution.failure = error
    except BaseException:
        pass


def run(number, source):
    """Runs a source. Gives the VALUE frame of its final expression, in pieces, or None."""
    if source.startswith("\ufeff"):
        source = source[1:]
    name = "<execution %d>" % number
    forgotten = source_cache.keep(name, source)
    interactive.note_source(number, source_cache.sources.get(name, ""), forgotten)
    body, last = translated(name, source)
    names = vars(guard.main_module)
    value = None
    try:
        if body is not None:
            State.future_flags |= body.co_flags & CO_FUTURE
            run_code(body, names)
        if last is not None:
            value = run_code(last, names)
    finally:
        guard.stop_tracing()
    if value is None or getpid() != guard.State.pid:
        return None
    interactive.note_value(number, value)
    return value_frame(value)


def value_frame(value):
    """The VALUE frame of a value, in pieces."""
    text, forms = None, ()
    if type(value) in PLAIN:
        try:
            text = foreign(repr, value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if is_foreign(error):
                raise  # A signal handler did: the repr of these runs no other code.
            # It will be told of there:
    if text is None:
        import render

        text, forms = render.of_value(value)
    text = string(text, wire.state.max_text_bytes)
    name = string(type_name(type(value)) or "object", wire.NAME_MAX_BYTES)
    wire.state.room -= len(text)
    if not forms:
        return (wire.VALUE, text, name, number(0))
    wire.state.room -= wire.size_of(forms)
    return (wire.VALUE, text, name, *wire.forms(forms))


def assist(kind, source, cursor):
    """Completes or inspects. Gives a VALUE frame without a type, in pieces."""
    import assistance

    answer = assistance.answer(kind == wire.COMPLETE, source, cursor)
    form = ("application/json", answer.encode("utf-8", "backslashreplace"))
    return (wire.VALUE, string("", 0), string("", 0), *wire.forms([form]))


def translated(name, source):
    """As `compiled`, also of a source with lines of IPython's syntax."""
    try:
        return compiled(name, source)
    except SyntaxError as caught:
        error = caught
    import magics

    original, source = source, magics.translation(source, error)
    while source is not None:
        try:
            return compiled(name, source)
        except SyntaxError as caught:
            error = caught
        source = magics.translation(source, error)
    magics.point_at_original(error, original)
    raise error


def compiled(name, source):
    """The code of all statements but a final expression, and the code of that expression.

    Either is None if there is none.
    """
    flags = TOP_LEVEL_AWAIT | State.future_flags

    def translate(what, mode, extra=0):
        return foreign(compile, what, name, mode, flags | extra, True)

    if is_one_line(source):
        try:
            return None, translate(source, "eval")
        except SyntaxError:
            pass  # A statement, then.
    try:
        if len(source) > AST_MAX_CHARS:
            return compiled_in_two(source, translate)
        tree = translate(source, "exec", ONLY_AST)
        if not tree.body or type(tree.body[-1]).__name__ != "Expr":
            return translate(tree, "exec"), None
        expression = type(translate("0", "eval", ONLY_AST))(tree.body.pop().value)
        body = translate(tree, "exec") if tree.body else None
        if body is not None:
            flags |= body.co_flags & CO_FUTURE
        return body, translate(expression, "eval")
    except SyntaxError as caught:
        error = caught
    if error.text is None and type(error.lineno) is int:
        # Found behind the parser, where Python would look for the source in a file.
        error.text = source_cache.line(name, error.lineno)
    raise error


def is_one_line(source):
    """Whether a source may be nothing but an expression, which needs no AST to be told so.

    Not with a backslash: an invalid escape would be warned of at each of two attempts. Not with
    an indent, which `eval` would forgive.
    """
    return len(source) < 256 and "\n" not in source and "\\" not in source and source[:1] > " "


def compiled_in_two(source, translate):
    """The same for a long source: its last line, if that is an expression and complete."""
    end = len(source)
    while end > 0:
        start = source.rfind("\n", 0, end) + 1
        if start < end and source[start] not in " \t\f\r#":
            try:
                # A line that compiles alone, after lines that do, is a statement of its own.
                body = translate(source[:start], "exec")
                return body, translate("\n" * source.count("\n", 0, start) + source[start:], "eval")
            except SyntaxError:
                break
        end = start - 1
    return translate(source, "exec"), None


def run_code(code, names):
    """Runs compiled code, and gives its value."""
    result = foreign(eval, code, names)
    return run_coroutine(result) if code.co_flags & CO_COROUTINE else result


def run_coroutine(coroutine):
    """Runs code that awaits at its top level, on the session's event loop."""
    asyncio = load("asyncio")
    if asyncio is None:
        coroutine.close()
        raise RuntimeError("top-level await needs asyncio, and another module has its name")
    if State.loop is None or State.loop.is_closed():
        State.loop = foreign(asyncio.new_event_loop)
    foreign(asyncio.set_event_loop, State.loop)
    task = foreign(State.loop.create_task, coroutine)
    try:
        return foreign(State.loop.run_until_complete, task)
    except BaseException as caught:
        error = caught
    try:
        if not task.done():
            # Interrupted. Let the code clean up, and tell where it was.
            task.cancel()
            foreign(State.loop.run_until_complete, task)
        elif not task.cancelled():
            task.exception()  # Now it counts as seen, or asyncio would print it as well.
    except BaseException as unwinding:
        error.__context__ = unwinding
    raise error


def leave_child(failure):
    """Ends a process that the code forked and that came back into the runner."""
    status = 0
    if failure is not None:
        # As Python ends: exit() with nothing or a number is silent, all else is printed.
        code = getattr(failure, "code", None) if type(failure) is SystemExit else failure
        status = 0 if code is None else code & 0xFF if type(code) is int else 1
        try:
            if code is failure:
                text = report.formatted(failure, report.without_runner(failure))
            else:
                text = "" if code is None or type(code) is int else "%s\n" % (code,)
            write(2, text.encode("utf-8", "backslashreplace"))
        except BaseException:
            pass
    streams.flush()
    _exit(status)
