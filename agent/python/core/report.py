"""Describes exceptions, whatever their classes do.

Reads tracebacks through C descriptors, which no class can redefine. Runs user code (`str`, `repr`,
and formatting, which calls them) through `call_user`, and uses another text if that raises, hangs
until interrupted, or runs out of stack or memory.
"""

import builtins

import source_cache
from classes import type_name
from guard import Any, call_user, call_without_workdir, is_kernel_code, load, traceback_of
from source_cache import is_of_execution
from wire import MESSAGE_MAX_BYTES, NAME_MAX_BYTES, TRACEBACK_MAX_BYTES, string

context_of = BaseException.__dict__["__context__"].__get__
cause_of = BaseException.__dict__["__cause__"].__get__
set_context = BaseException.__dict__["__context__"].__set__
set_traceback = BaseException.__dict__["__traceback__"].__set__
# Since 3.11.
ExceptionGroup = vars(builtins).get("BaseExceptionGroup")
exceptions_of: Any = ExceptionGroup.__dict__["exceptions"].__get__ if ExceptionGroup else None

# Of a traceback that is formatted without the standard library.
PLAIN_ENTRIES_MAX = 60
# How many causes and contexts of an exception are stripped.
CHAIN_MAX = 1000


def message_of(error):
    """str(error) or a text in its place, and whether `str` worked."""
    try:
        return str.__str__(call_user(str, error)), True
    except BaseException as caught:
        return "<no message: str() raised %s>" % type_name(type(caught)), False


def unrepresentable(value, error):
    """The text in place of a repr that raised."""
    reason = "%s: %s" % (type_name(type(error)), message_of(error)[0])
    return "<unrepresentable %s object: repr raised %s>" % (type_name(type(value)), reason[:1000])


def chain(kernel_error, error):
    """Makes the exception that was about to be reported the context of one raised in the kernel."""
    if error is not None and error is not kernel_error and context_of(kernel_error) is None:
        set_context(kernel_error, error)
    return kernel_error


def describe(error):
    """The payload of an EXCEPTION frame without its execution, in pieces."""
    kind = type(error)
    try:
        message, works = message_of(error)
        trace = strip_kernel(error)
        text = format_traceback(error, trace) if works else None
        if text is None:
            text = format_plainly(kind, message, trace)
        return (
            string(type_name(kind), NAME_MAX_BYTES),
            string(message, MESSAGE_MAX_BYTES),
            string(text, TRACEBACK_MAX_BYTES, keep_end=True),
        )
    except BaseException as caught:
        # Most likely memory is short. Dropping the tracebacks frees what their frames hold.
        set_traceback(error, None)
        set_traceback(caught, None)
    name, message = type_name(kind), "<no message: too little memory to tell>"
    return (
        string(name, NAME_MAX_BYTES),
        string(message, MESSAGE_MAX_BYTES),
        string("%s: %s\n" % (name, message), TRACEBACK_MAX_BYTES),
    )


def format_traceback(error, trace):
    """The traceback as Python prints it; None if the standard library can not format it."""
    try:
        format_exception = load("traceback").format_exception
        source_cache.update_linecache()
        # Formatting imports more modules.
        return "".join(call_without_workdir(format_exception, type(error), error, trace))
    except BaseException:
        return None


def format_plainly(kind, message, trace):
    """The traceback, formatted without the standard library and without code of the exception."""
    entries = []
    while trace is not None:
        code, lineno = trace.tb_frame.f_code, trace.tb_lineno
        line = source_cache.line(code.co_filename, lineno or 0)
        entries.append(
            '  File "%s", line %s, in %s\n' % (code.co_filename, lineno, code.co_name)
            + ("    %s\n" % line.strip() if line else "")
        )
        if len(entries) > PLAIN_ENTRIES_MAX:
            del entries[PLAIN_ENTRIES_MAX // 2]
        trace = trace.tb_next
    head = "Traceback (most recent call last):\n" if entries else ""
    return "%s%s%s: %s\n" % (head, "".join(entries), type_name(kind), message)


def strip_kernel(error):
    """An exception's traceback without kernel frames; strips those behind it in place."""
    seen, waiting = {id(error)}, [cause_of(error), context_of(error), *group_members(error)]
    while waiting and len(seen) < CHAIN_MAX:
        current = waiting.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            set_traceback(current, strip_frames(traceback_of(current)))
            waiting += [cause_of(current), context_of(current), *group_members(current)]
    return strip_frames(traceback_of(error))


def group_members(error):
    """The exceptions in a group of them."""
    grouped = ExceptionGroup is not None and issubclass(type(error), ExceptionGroup)
    return exceptions_of(error) if grouped else ()


def strip_frames(trace):
    """A traceback without kernel frames, nor those of an event loop that the kernel started."""
    kept, from_kernel = [], trace is not None and is_kernel_code(trace.tb_frame.f_code)
    while trace is not None:
        if not is_kernel_code(trace.tb_frame.f_code):
            kept.append(trace)
        trace = trace.tb_next
    names = [entry.tb_frame.f_code.co_filename for entry in kept]
    if from_kernel and any(is_of_execution(name) for name in names):
        while not is_of_execution(names[len(names) - len(kept)]):
            del kept[0]
    for entry, following in zip(kept, [*kept[1:], None]):
        entry.tb_next = following
    return kept[0] if kept else None
