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


state = State()


def begin(_):
    state.noted, state.bytes_left = [], NOTED_MAX_BYTES
    if state.replacement is None or state.original is not builtins.print:
        state.original = builtins.print
        state.replacement = with_note(builtins.print)
    state.is_on = True
    builtins.print = state.replacement


def end():
    state.is_on = False
    if builtins.print is state.replacement:
        builtins.print = state.original


def noted():
    return state.noted


def with_note(original):
    def print(*values, **options):
        if state.is_on and is_tenants(getframe().f_back):
            call_for_user(note_values, values)
        return original(*values, **options)

    print.__module__, print.__qualname__ = "builtins", "print"
    return interruptible(print)


def note_values(values):
    if len(state.noted) >= wire.PRINTS_MAX or state.bytes_left <= 0:
        return
    texts: list = []
    for value in values[: wire.PRINT_VALUES_MAX]:
        text = text_of(value)
        # A character has at most six bytes in JSON; a lone surrogate is none of UTF-8.
        state.bytes_left -= 6 * len(text) + 4
        if state.bytes_left <= 0:
            break
        texts.append(text.encode("utf-8", "replace").decode())
    state.bytes_left -= 4
    state.noted.append(texts)


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
