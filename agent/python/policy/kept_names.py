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


def begin(rule):
    if "keep" in rule:
        State.before = dict(vars(main_module))
    State.rule = rule


def end():
    names = vars(main_module)
    if State.rule is None:
        return
    for name in State.rule.get("drop", ()):
        names.pop(name, None)
    if "keep" in State.rule:
        if State.after is None:
            State.after = namespace_after(names)
        names.clear()
        names.update(State.after)
    State.before = State.after = State.rule = None


def namespace_after(names):
    kept = {*State.rule["keep"]}
    after = {name: value for name, value in State.before.items() if not stays(name, kept)}
    after.update((name, value) for name, value in names.items() if stays(name, kept))
    return after


def stays(name, kept):
    # A name of the user's own class would run code here.
    return type(name) is str and (name in kept or name[:2] == name[-2:] == "__")
