"""Following dotted names to what they mean, without running any code of a property."""

from budget import RenderingTimeout, call
from guard import builtins, load, main_module, sys

MISSING = object()
ModuleType = type(sys)
# Descriptors in C, of a field of a C struct and of what is made of one.
FIELDS = (type(type.__dict__["__basicsize__"]), type(type.__dict__["__module__"]))
FunctionType = type(lambda: None)


def part_of_name(character):
    return character == "_" or character.isalnum()


def name_before(text):
    """The dotted name that a text ends with, or ""."""
    start = len(text)
    while start and (part_of_name(text[start - 1]) or text[start - 1] == "."):
        start -= 1
    return text[start:]


def follow(dotted):
    """What a dotted name means; MISSING if that is unknown, or code would have to run."""
    first, *rest = dotted.split(".")
    names = vars(main_module)
    value = names[first] if first in names else vars(builtins).get(first, MISSING)
    for name in rest:
        if value is MISSING:
            break
        value = attribute(value, name)
    return value


def raw_attribute(value, name):
    """An attribute as it stands in an object or its class; MISSING if there is none."""
    try:
        return call(load("inspect").getattr_static, value, name, MISSING)
    except (KeyboardInterrupt, RenderingTimeout):
        raise
    except BaseException:
        return MISSING


def attribute(value, name):
    """An attribute's value; MISSING if there is none, or code would have to run."""
    found = raw_attribute(value, name)
    if isinstance(found, (staticmethod, classmethod)):
        return found.__func__
    if isinstance(found, property) or found is MISSING:
        return MISSING
    if isinstance(found, FIELDS) and not isinstance(value, type):
        return call(type(found).__get__, found, value, type(value))
    if isinstance(found, FunctionType) and raw_attribute(type(value), name) is found:
        return found.__get__(value)  # A method.
    # Any other descriptor but a function gives something that is not this.
    is_descriptor = hasattr(type(found), "__get__") and not callable(found)
    return MISSING if is_descriptor else found


def kind_of(value):
    """A word for what something is."""
    if isinstance(value, type):
        return "class"
    if isinstance(value, ModuleType):
        return "module"
    if isinstance(value, property):
        return "property"
    return "function" if callable(value) else "instance"
