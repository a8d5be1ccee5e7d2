"""The repr of containers, abridged as IPython abridges it: as far as the execution wants."""

from guard import interruptible
from wire import state

BRACKETS = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    dict: ("{", "}"),
    type({}.keys()): ("dict_keys([", "])"),
    type({}.values()): ("dict_values([", "])"),
    type({}.items()): ("dict_items([", "])"),
}


@interruptible
def abridged_repr(value, outer=()):
    """The repr, with `...` in place of what containers have beyond their first elements.

    Differs from `repr` only where one has more, or is too deep. `outer` are the containers around
    this one.
    """
    brackets = BRACKETS.get(type(value))
    if brackets is None or not value:
        return repr(value)
    if len(outer) >= state.max_depth or any(it is value for it in outer):
        return "...".join(brackets) if len(brackets[0]) == 1 else "..."
    outer = (*outer, value)
    elements: list = []
    for element in value:
        if len(elements) == state.max_items:
            elements.append("...")
            break
        text = text_of(element, outer)
        if type(value) is dict:
            text += ": " + text_of(value[element], outer)
        elements.append(text)
    comma = "," if type(value) is tuple and len(elements) == 1 else ""
    return brackets[0] + ", ".join(elements) + comma + brackets[1]


@interruptible
def text_of(element, outer):
    # Most elements are no containers: this way they cost one call of `repr`.
    return abridged_repr(element, outer) if type(element) in BRACKETS else repr(element)
