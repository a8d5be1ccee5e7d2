"""The repr of containers, abridged as IPython abridges it."""

from guard import interruptible

# Of each container, its first elements; IPython's max_seq_length.
ELEMENTS_MAX = 1000

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

    Differs from `repr` only where one has more. `outer` are the containers around this one.
    """
    brackets = BRACKETS.get(type(value))
    if brackets is None or not value:
        return repr(value)
    if any(it is value for it in outer):
        return "...".join(brackets) if len(brackets[0]) == 1 else "..."
    outer = (*outer, value)
    elements = []
    for element in value:
        if len(elements) == ELEMENTS_MAX:
            elements.append("...")
            break
        text = repr(element) if type(element) not in BRACKETS else abridged_repr(element, outer)
        if type(value) is dict:
            element = value[element]
            other = type(element) in BRACKETS and abridged_repr(element, outer)
            text = "%s: %s" % (text, other or repr(element))
        elements.append(text)
    comma = "," if type(value) is tuple and len(elements) == 1 else ""
    return brackets[0] + ", ".join(elements) + comma + brackets[1]
