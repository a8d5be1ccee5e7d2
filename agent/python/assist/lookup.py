"""Resolves dotted names to objects without running code of a property."""

from budget import RenderingTimeout, call_timed
from guard import builtins, load, main_module, sys

MISSING = object()
ModuleType = type(sys)
# Descriptors in C of a field of a C struct, and of a value computed from one.
C_FIELDS = (type(type.__dict__["__basicsize__"]), type(type.__dict__["__module__"]))
FunctionType = type(lambda: None)


def is_name_character(character):
    return character == "_" or character.isalnum()


def dotted_name(text):
    """The dotted name at the end of a text, or ""."""
    start = len(text)
    while start and (is_name_character(text[start - 1]) or text[start - 1] == "."):
        start -= 1
    return text[start:]


def resolve(dotted):
    """The object of a dotted name; MISSING if there is none, or code would have to run."""
    first, *rest = dotted.split(".")
    names = vars(main_module)
    value = names[first] if first in names else vars(builtins).get(first, MISSING)
    for name in rest:
        if value is MISSING:
            break
        value = attribute(value, name)
    return value


def static_attribute(value, name):
    """An attribute as an object or its class stores it; MISSING if there is none."""
    try:
        return call_timed(load("inspect").getattr_static, value, name, MISSING)
    except (KeyboardInterrupt, RenderingTimeout):
        raise
    except BaseException:
        return MISSING


def attribute(value, name):
    """An attribute's value; MISSING if there is none, or code would have to run."""
    found = static_attribute(value, name)
    if isinstance(found, (staticmethod, classmethod)):
        return found.__func__
    if isinstance(found, property) or found is MISSING:
        return MISSING
    if isinstance(found, C_FIELDS) and not isinstance(value, type):
        return call_timed(type(found).__get__, found, value, type(value))
    if isinstance(found, FunctionType) and static_attribute(type(value), name) is found:
        return found.__get__(value)  # A method.
    # A descriptor that is no function returns something else than itself.
    is_descriptor = hasattr(type(found), "__get__") and not callable(found)
    return MISSING if is_descriptor else found


def kind_of(value):
    """The kind of an object, as the API names it."""
    if isinstance(value, type):
        return "class"
    if isinstance(value, ModuleType):
        return "module"
    if isinstance(value, property):
        return "property"
    return "function" if callable(value) else "instance"
