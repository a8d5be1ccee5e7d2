"""Lists the objects that are in the component; `runtimes/wasm/immortal.py` makes them immortal.

References to an immortal object are not counted (PEP 683): code that looks at it writes nothing,
and a session has fewer pages of its own.
"""

import array
import gc

MARK = b"vivarium immortal objects"


def living():
    """All objects; and the address of None, their number and addresses, after a mark.

    Both are to be kept: if an object ended, what is in its place would be taken for it.
    """
    gc.collect()
    found = {id(it): it for it in gc.get_objects()}
    wanted = list(found.values())
    while wanted:
        more = {id(it): it for it in gc.get_referents(*wanted) if id(it) not in found}
        found.update(more)
        wanted = list(more.values())
    addresses = array.array("I", [id(None), len(found), *found])
    return tuple(found.values()), MARK + addresses.tobytes()
