"""The user's variables as a checkpoint keeps them: each by name, type and fingerprint.

Two checkpoints tell by these what was bound in between. It must run no user code, whatever the
namespace holds: it looks at exact types alone, and compares and hashes no object of the user's.
The supervisor has the same bounds, and believes nothing of this (images/names.rs).
"""

from classes import type_name
from guard import main_module

NAMES_MAX = 500
NAME_MAX_CHARS = 100
# Of all names and types together.
TEXT_MAX_CHARS = 32 << 10
# How many entries of the namespace are looked at.
ENTRIES_MAX = 5000
# Of a value that counts itself.
VALUE_MAX_BYTES = 64

# Looked up once: user code may give its module another class, but not another namespace.
NAMESPACE = vars(main_module)


def gather():
    """The variables, the newest name first, and whether there are others."""
    try:
        return gathered()
    except BaseException:
        # The collector may have run a finaliser of the user's, which changed the namespace.
        return [], True


def gathered():
    found: list = []
    types: dict = {}
    chars_left = TEXT_MAX_CHARS
    for _, (name, value) in zip(range(ENTRIES_MAX), reversed(NAMESPACE.items())):
        if type(name) is not str or name[:1] == "_" or not name.isidentifier():
            continue
        # By its id, as a metaclass may hash and compare classes.
        identity = id(type(value))
        if identity not in types:
            types[identity] = described(type(value)), SEEN.get(identity, id)
        kind, seen = types[identity]
        chars_left -= len(name) + len(kind)
        if len(found) == NAMES_MAX or len(name) > NAME_MAX_CHARS or chars_left < 0:
            return found, True
        # `hash` has the same seed in all processes that an image is loaded into.
        found.append((name, kind, hash((identity, seen(value))) & 0xFFFFFFFF))
    return found, len(NAMESPACE) > ENTRIES_MAX


def described(kind):
    name = type_name(kind)
    return name[:NAME_MAX_CHARS] if name.isprintable() else "object"


def of_int(value):
    """Its text, as the hashes of -1 and -2 are the same."""
    return repr(value) if value.bit_length() <= 8 * VALUE_MAX_BYTES else id(value)


def of_text(value):
    return value if len(value) <= VALUE_MAX_BYTES else of_sized(value)


def of_sized(value):
    return id(value), len(value)


# What counts of a value, by the id of its type: of scalars the value alone, and of others which
# object it is.
SEEN: dict = {id(kind): repr for kind in (float, complex, bool, type(None))}
SEEN.update((id(kind), of_sized) for kind in (list, dict, set, frozenset, tuple, bytearray))
SEEN.update({id(int): of_int, id(str): of_text, id(bytes): of_text})
