"""Notes what tenant code prints, as values: the reprs of what each call of `print` is given."""

import wire
from abridge import abridged_repr
from guard import Any, builtins, call_for_user, interruptible, sys
from report import unrepresentable
from tenant_code import is_tenants

VALUE_MAX_CHARS = 1000
# Of all of them, as JSON at its longest.
NOTED_MAX_BYTES = 192 << 10

getframe = sys._getframe


class State:
    is_on = False
    noted: list = []
    bytes_left = 0
    original: Any = None
    replacement: Any = None


def begin(_):
    State.noted, State.bytes_left = [], NOTED_MAX_BYTES
    if State.replacement is None or State.original is not builtins.print:
        State.original = builtins.print
        State.replacement = with_note(builtins.print)
    State.is_on = True
    builtins.print = State.replacement


def end():
    State.is_on = False
    if builtins.print is State.replacement:
        builtins.print = State.original


def noted():
    return State.noted


def with_note(original):
    def print(*values, **options):
        if State.is_on and is_tenants(getframe().f_back):
            call_for_user(note_values, values)
        return original(*values, **options)

    print.__module__, print.__qualname__ = "builtins", "print"
    return interruptible(print)


def note_values(values):
    if len(State.noted) >= wire.PRINTS_MAX or State.bytes_left <= 0:
        return
    texts: list = []
    for value in values[: wire.PRINT_VALUES_MAX]:
        text = text_of(value)
        # A character has at most six bytes in JSON; a lone surrogate is none of UTF-8.
        State.bytes_left -= 6 * len(text) + 4
        if State.bytes_left <= 0:
            break
        texts.append(text.encode("utf-8", "replace").decode())
    State.bytes_left -= 4
    State.noted.append(texts)


def text_of(value):
    if type(value) in (str, bytes):
        value = value[:VALUE_MAX_CHARS]
    try:
        text = str.__str__(call_for_user(abridged_repr, value))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        text = unrepresentable(value, error)
    return text[:VALUE_MAX_CHARS]
