"""Inspection: what the name at the cursor means, or the function whose call it is in."""

import render
from budget import RenderingTimeout, call
from classes import type_name
from guard import load
from lookup import MISSING, follow, kind_of, name_before, part_of_name

REPR_MAX_CHARS = 1000
TEXT_MAX_CHARS = 64 << 10


def inspect(source, cursor):
    """What stands at the cursor: {found, name, type, signature, docstring, repr, source}."""
    name = name_at(source, cursor)
    value = follow(name) if name else MISSING
    answer = {"found": value is not MISSING, "name": name, "type": None, "signature": None}
    answer.update(docstring=None, repr=None, source=None)
    if value is MISSING:
        return answer
    library = load("inspect")
    answer["type"] = type_name(type(value))
    try:
        answer["repr"] = cut(render.text_of(value), REPR_MAX_CHARS)
        answer["docstring"] = cut(told(library.getdoc, value), TEXT_MAX_CHARS)
        if callable(value):
            answer["signature"] = cut(told(signature, library, value), TEXT_MAX_CHARS)
        if kind_of(value) in ("function", "class"):
            answer["source"] = cut(told(library.getsource, value), TEXT_MAX_CHARS)
    except RenderingTimeout:
        pass  # Then this is what was found in time.
    return answer


def signature(library, value):
    return str(library.signature(value))


def told(function, *args):
    """What a function of the standard library says, if it does."""
    try:
        return call(function, *args)
    except (KeyboardInterrupt, RenderingTimeout):
        raise
    except BaseException:
        return None


def cut(text, max_chars):
    return str.__str__(text)[:max_chars] if isinstance(text, str) else None


def name_at(source, cursor):
    """The dotted name at the cursor up to the part that it is in; else that of the open call."""
    end = cursor
    while end < len(source) and part_of_name(source[end]):
        end += 1
    name = name_before(source[:end]).strip(".")
    if name and not name[0].isdigit():
        return name
    depth = 0
    for at in range(cursor - 1, max(cursor - 10_000, -1), -1):
        if source[at] in ")]}":
            depth += 1
        elif source[at] in "([{":
            if depth == 0:
                return name_before(source[:at]) if source[at] == "(" else ""
            depth -= 1
    return ""
