"""Telling of values and exceptions, whatever their classes do.

Tracebacks are read by C descriptors, which no class can redefine. What must run tenant code (`str`, `repr`, and formatting, which calls them) goes through `foreign`, and
has something to say in its place when it raises, hangs until interrupted, or runs out of
stack or memory.
"""

import builtins

import source_cache
from classes import type_name
from guard import away_from_workdir, foreign, is_ours, load, traceback_of
from wire import MESSAGE_MAX_BYTES, NAME_MAX_BYTES, TRACEBACK_MAX_BYTES, string

context_of = BaseException.__dict__["__context__"].__get__
cause_of = BaseException.__dict__["__cause__"].__get__
set_context = BaseException.__dict__["__context__"].__set__
set_traceback = BaseException.__dict__["__traceback__"].__set__
# Since 3.11.
ExceptionGroup = vars(builtins).get("BaseExceptionGroup")
members_of = ExceptionGroup.__dict__["exceptions"].__get__ if ExceptionGroup else None

# Of a traceback that we format ourselves.
PLAIN_ENTRIES_MAX = 60
# Exceptions behind an exception that are looked at.
CHAIN_MAX = 1000


def message_of(error):
    """str(error), and whether that worked."""
    try:
        return str.__str__(foreign(str, error)), True
    except BaseException as caught:
        return "<no message: str() raised %s>" % type_name(type(caught)), False


def unrepresentable(value, error):
    """What is said instead of a repr that raised."""
    reason = "%s: %s" % (type_name(type(error)), message_of(error)[0])
    return "<unrepresentable %s object: repr raised %s>" % (type_name(type(value)), reason[:1000])


def chained(intruder, error):
    """What was raised in the runner while another exception, or none, was about to be told."""
    if error is not None and error is not intruder and context_of(intruder) is None:
        set_context(intruder, error)
    return intruder


def describe(error):
    """The payload of an EXCEPTION frame, but for its execution, in pieces."""
    kind = type(error)
    try:
        message, works = message_of(error)
        trace = without_runner(error)
        text = formatted(error, trace) if works else None
        if text is None:
            text = plainly_formatted(kind, message, trace)
        return (
            string(type_name(kind), NAME_MAX_BYTES),
            string(message, MESSAGE_MAX_BYTES),
            string(text, TRACEBACK_MAX_BYTES, keep_end=True),
        )
    except BaseException as caught:
        # Out of memory, most likely. What the frames hold goes with the traceback.
        set_traceback(error, None)
        set_traceback(caught, None)
    name, message = type_name(kind), "<no message: too little memory to tell>"
    return (
        string(name, NAME_MAX_BYTES),
        string(message, MESSAGE_MAX_BYTES),
        string("%s: %s\n" % (name, message), TRACEBACK_MAX_BYTES),
    )


def formatted(error, trace):
    """The traceback as Python prints it, or None if the standard library fails us."""
    try:
        format_exception = load("traceback").format_exception
        source_cache.refill()
        # It imports more as it goes.
        return "".join(away_from_workdir(format_exception, type(error), error, trace))
    except BaseException:
        return None


def plainly_formatted(kind, message, trace):
    """The traceback without the standard library, and without asking the exception again."""
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


def without_runner(error):
    """An exception's traceback without our frames, which it takes out behind that as well."""
    seen, waiting = {id(error)}, [cause_of(error), context_of(error), *members(error)]
    while waiting and len(seen) < CHAIN_MAX:
        current = waiting.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            set_traceback(current, stripped(traceback_of(current)))
            waiting += [cause_of(current), context_of(current), *members(current)]
    return stripped(traceback_of(error))


def members(error):
    """The exceptions in a group of them."""
    grouped = ExceptionGroup is not None and issubclass(type(error), ExceptionGroup)
    return members_of(error) if grouped else ()


def stripped(trace):
    """A traceback without our frames, nor those of an event loop that we started."""
    kept, from_runner = [], trace is not None and is_ours(trace.tb_frame.f_code)
    while trace is not None:
        if not is_ours(trace.tb_frame.f_code):
            kept.append(trace)
        trace = trace.tb_next
    names = [entry.tb_frame.f_code.co_filename for entry in kept]
    if from_runner and any(name.startswith("<execution ") for name in names):
        while not names[len(names) - len(kept)].startswith("<execution "):
            del kept[0]
    for entry, following in zip(kept, [*kept[1:], None]):
        entry.tb_next = following
    return kept[0] if kept else None
