"""Reads classes through C descriptors, which no class can redefine."""

mro_of = type.__dict__["__mro__"].__get__
namespace_of = type.__dict__["__dict__"].__get__
qualname_of = type.__dict__["__qualname__"].__get__
module_of = type.__dict__["__module__"].__get__
dict_offset_of = type.__dict__["__dictoffset__"].__get__


def type_name(kind):
    """A class's name, with its module unless that is builtins or the user's."""
    try:
        name, module = qualname_of(kind), module_of(kind)
    except AttributeError:
        return "object"
    # A string of the user's own class would run code where it is joined.
    if type(name) is not str:
        return "object"
    if type(module) is not str or module in ("builtins", "__main__"):
        return name
    return module + "." + name
