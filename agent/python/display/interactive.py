"""The extras of an interactive session: `_`, `In`, `Out`, `display`.

`_`, `__` and `___` are variables of `__main__`. The rest are builtins: they are not among the
user's variables, and a variable of the same name takes precedence.

- `In[n]` is the source of execution n, for the last `source_cache.SOURCES_MAX`; else empty.
- `Out[n]` is its value. It keeps the last `OUT_MAX`, but of large ones only the last `LARGE_MAX`,
  which `_`, `__` and `___` hold anyway: results are often large and rarely used again. The size of
  a container does not include what it holds.

show.py implements `display`, and is loaded at its first call.
"""

import builtins
from sys import getsizeof

from classes import mro_of, namespace_of
from guard import call_for_user, interruptible, main_module

OUT_MAX = 100
LARGE_BYTES = 1 << 20
LARGE_MAX = 3

In = [""]
Out: dict = {}
# The values of `_`, `__` and `___`, unless user code assigned them.
last: list = [None, None, None]
# The executions in `Out` whose values are large.
large: list = []

# The type of a method that is written in C.
MethodDescriptor = type(object.__sizeof__)
NUMBERS = {int, float, bool}


def note_source(execution, source, evicted):
    """Adds a source to `In`, and empties the entries of evicted executions."""
    # User code may have changed the list.
    while len(In) <= execution:
        In.append("")
    In[execution] = source
    for number in evicted:
        if number < len(In):
            In[number] = ""


def note_value(execution, value):
    """Adds a value to `Out`, and makes it `_`."""
    names = vars(main_module)
    newest, second, third = last
    # Not if user code has assigned a variable of that name.
    if names.get("_", newest) is newest:
        names["_"] = value
    if newest is not None and names.get("__", second) is second:
        names["__"] = newest
    if second is not None and names.get("___", third) is third:
        names["___"] = second
    last[:] = value, newest, second
    if value is Out:
        return
    Out[execution] = value
    if type(value) not in NUMBERS and is_large(value):
        large.append(execution)
        if len(large) > LARGE_MAX:
            Out.pop(large.pop(0), None)
    if len(Out) > OUT_MAX:
        del Out[next(iter(Out))]


def is_large(value):
    """Whether a value is too large to keep for long, or measuring it would run Python code."""
    for kind in mro_of(type(value)):
        if "__sizeof__" in namespace_of(kind):
            measured = type(namespace_of(kind)["__sizeof__"]) is MethodDescriptor
            return not measured or getsizeof(value) > LARGE_BYTES
    return True


@interruptible
def display(*objects, **options):
    import show

    return call_for_user(show.display, *objects, **options)


@interruptible
def update_display(object, *, display_id, **options):
    options["update"] = True
    display(object, display_id=display_id, **options)


@interruptible
def clear_output(wait=False):
    import publisher

    return call_for_user(publisher.clear_output, wait)


# The kernel is compiled without docstrings.
display.__doc__ = "Shows objects in their rich forms: display(*objects, display_id=None, ...)"
update_display.__doc__ = "Shows an object in place of the one displayed under display_id."
clear_output.__doc__ = "Takes back what was shown so far; with wait=True when more is shown."


def start():
    """Installs the builtins."""
    for function in (display, update_display, clear_output):
        function.__module__ = "IPython.display"
        setattr(builtins, function.__name__, function)
    vars(builtins).update(In=In, Out=Out)
