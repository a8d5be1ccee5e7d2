"""Inspection of the name at the cursor, or of the function whose call the cursor is in."""

import render
from budget import RenderingTimeout, call_timed
from classes import type_name
from guard import load
from lookup import MISSING, dotted_name, is_name_character, kind_of, resolve

REPR_MAX_CHARS = 1000
TEXT_MAX_CHARS = 64 << 10


def inspect(source, cursor):
    """Describes it as {found, name, type, signature, docstring, repr, source}."""
    name = name_at(source, cursor)
    value = resolve(name) if name else MISSING
    answer = {"found": value is not MISSING, "name": name, "type": None, "signature": None}
    answer.update(docstring=None, repr=None, source=None)
    if value is MISSING:
        return answer
    library = load("inspect")
    answer["type"] = type_name(type(value))
    try:
        answer["repr"] = truncate(render.text_of(value), REPR_MAX_CHARS)
        answer["docstring"] = truncate(call_or_none(library.getdoc, value), TEXT_MAX_CHARS)
        if callable(value):
            answer["signature"] = truncate(call_or_none(signature, library, value), TEXT_MAX_CHARS)
        if kind_of(value) in ("function", "class"):
            answer["source"] = truncate(call_or_none(library.getsource, value), TEXT_MAX_CHARS)
    except RenderingTimeout:
        pass  # Answers with what was found in time.
    return answer


def signature(library, value):
    return str(library.signature(value))


def call_or_none(function, *args):
    """What a function of the standard library returns; None if it raises."""
    try:
        return call_timed(function, *args)
    except (KeyboardInterrupt, RenderingTimeout):
        raise
    except BaseException:
        return None


def truncate(text, max_chars):
    return str.__str__(text)[:max_chars] if isinstance(text, str) else None


def name_at(source, cursor):
    """The dotted name up to the part that the cursor is in; else that of the open call."""
    end = cursor
    while end < len(source) and is_name_character(source[end]):
        end += 1
    name = dotted_name(source[:end]).strip(".")
    if name and not name[0].isdigit():
        return name
    depth = 0
    for at in range(cursor - 1, max(cursor - 10_000, -1), -1):
        if source[at] in ")]}":
            depth += 1
        elif source[at] in "([{":
            if depth == 0:
                return dotted_name(source[:at]) if source[at] == "(" else ""
            depth -= 1
    return ""
