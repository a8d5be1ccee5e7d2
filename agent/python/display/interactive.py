"""What an interactive session has beyond a script: `_`, `In`, `Out`, `display`.

`_`, `__` and `___` are variables of `__main__`; the rest are builtins, so that they do not
stand among the tenant's variables and any of them gives way to one of the same name.

- `In[n]` is the source of execution n: of the last `source_cache.SOURCES_MAX`, else empty.
- `Out[n]` is its value. The last `OUT_MAX` are kept, and of large ones only the last
  `LARGE_MAX`, which is what `_`, `__` and `___` hold anyway: results are often large, and
  rarely looked at again. What a container holds is not measured.

What is shown, and how, is in show.py, which is loaded when it is first needed.
"""

import builtins
from sys import getsizeof

from classes import mro_of, namespace_of
from guard import entered, interruptible, main_module

OUT_MAX = 100
LARGE_BYTES = 1 << 20
LARGE_MAX = 3

In = [""]
Out = {}
# What `_`, `__` and `___` are, unless the code has made them something else.
last = [None, None, None]
# Executions whose values are large.
large = []

# How a method written in C appears in its class.
MethodDescriptor = type(object.__sizeof__)
NUMBERS = {int, float, bool}


def note_source(execution, source, forgotten):
    """Adds a source to `In`, and takes those of forgotten executions out."""
    # The code has this list, and may have changed it.
    while len(In) <= execution:
        In.append("")
    In[execution] = source
    for number in forgotten:
        if number < len(In):
            In[number] = ""


def note_value(execution, value):
    """Makes a value the last one."""
    names = vars(main_module)
    newest, second, third = last
    # Not where the code has a variable of that name itself.
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
    """Whether a value is too large to be kept for long, or measuring it would run Python code."""
    for kind in mro_of(type(value)):
        if "__sizeof__" in namespace_of(kind):
            measured = type(namespace_of(kind)["__sizeof__"]) is MethodDescriptor
            return not measured or getsizeof(value) > LARGE_BYTES
    return True


@interruptible
def display(*objects, **options):
    import show

    return entered(show.display, *objects, **options)


@interruptible
def update_display(object, *, display_id, **options):
    options["update"] = True
    return display(object, display_id=display_id, **options)


@interruptible
def clear_output(wait=False):
    import publisher

    return entered(publisher.clear_output, wait)


# Docstrings are not kept in what is compiled for the kernel.
display.__doc__ = "Shows objects in their rich forms: display(*objects, display_id=None, ...)"
update_display.__doc__ = "Shows an object in place of the one displayed under display_id."
clear_output.__doc__ = "Takes back what was shown so far; with wait=True when more is shown."


def start():
    """Makes the names builtins."""
    for function in (display, update_display, clear_output):
        function.__module__ = "IPython.display"
        setattr(builtins, function.__name__, function)
    builtins.In, builtins.Out = In, Out
