"""Which of its names an execution leaves behind.

`keep`: the namespace becomes what it was before, but for these names. `drop`: these names are
removed. Objects that were there before, and were changed in place, stay changed.
"""

from guard import Any, main_module


class State:
    rule: Any = None
    before: Any = None
    # What it is to become.
    after: Any = None


state = State()


def begin(rule):
    if "keep" in rule:
        state.before = dict(vars(main_module))
    state.rule = rule


def end():
    names = vars(main_module)
    if state.rule is None:
        return
    for name in state.rule.get("drop", ()):
        names.pop(name, None)
    if "keep" in state.rule:
        if state.after is None:
            state.after = namespace_after(names)
        names.clear()
        names.update(state.after)
    state.before = state.after = state.rule = None


def namespace_after(names):
    kept = {*state.rule["keep"]}
    after = {name: value for name, value in state.before.items() if not stays(name, kept)}
    after.update((name, value) for name, value in names.items() if stays(name, kept))
    return after


def stays(name, kept):
    # A name of the user's own class would run code here.
    return type(name) is str and (name in kept or name[:2] == name[-2:] == "__")
