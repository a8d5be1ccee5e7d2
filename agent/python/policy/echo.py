"""Which expressions' values are shown: `all` shows those of expression statements before the final
one, too.

The final one's value is the kernel's to show or not.
"""

import compiler
from guard import Any, builtins, call_for_user, interruptible, load

# Code does not assign this name.
NAME = "__vivarium_echo__"


@interruptible
def show_value(value):
    if value is not None:
        call_for_user(display, value)


def display(value):
    import show

    show.display(value)


def begin(which):
    if which == "all":
        vars(builtins)[NAME] = show_value
        compiler.state.transform = show_all


def end():
    compiler.state.transform = None
    vars(builtins).pop(NAME, None)


def show_all(tree):
    """Makes expression statements of a module, but a final one, show their values.

    A docstring stays what it is: behind any other statement, `from __future__` is an error.
    """
    nodes: Any = load("_ast")
    for at, statement in enumerate(tree.body[:-1]):
        if isinstance(statement, nodes.Expr):
            value = statement.value
            if at == 0 and isinstance(value, nodes.Constant) and type(value.value) is str:
                continue
            place = {
                "lineno": value.lineno,
                "col_offset": value.col_offset,
                "end_lineno": value.end_lineno,
                "end_col_offset": value.end_col_offset,
            }
            name = nodes.Name(id=NAME, ctx=nodes.Load(), **place)
            statement.value = nodes.Call(func=name, args=[value], keywords=[], **place)
