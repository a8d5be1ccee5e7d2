"""Keeps kernels from writing to the memory of their template, of which each would copy the pages.

Python writes to what it only looks at: an object has the count of its references in itself. Since
3.12 it does not count those to an immortal object (PEP 683), which lasts until the process ends: so
do all objects of a template. And new objects take the place of old ones, between others that a
kernel never looks at: so what is free there is taken, and what is new has pages of its own.
"""

import ctypes
import gc
import sys

# Where an object has the count of its references: in its first word, of which the lower half says
# that there is none (Include/object.h of 3.12 and 3.13, Include/refcount.h since 3.14).
COUNT = ctypes.c_uint32
COUNT_MAX = 0xFFFFFFFF
SIGN = 1 << 31

# So many objects at a time are asked for what they refer to.
BATCH = 4096


def settle(library):
    """To be called when all that kernels are to share is there, and there is one thread."""
    gc.collect()
    # Not in a Python that was built to be debugged (`d`), or without the GIL (`t`).
    if not sys.abiflags:
        make_immortal()
        fill_pools(library)
    # The collector writes to objects as well.
    gc.freeze()


def make_immortal():
    """Makes all that lives immortal, as far as the collector knows of it. Returns whether it did:
    it does not before Python 3.12, or where the count has another place.
    """
    immortal = sys.getrefcount(None) & COUNT_MAX
    if immortal < SIGN or COUNT.from_address(id(None)).value != immortal:
        return False
    # The collector knows of nothing that is made from here on, so that this comes to an end.
    wanted = mark(gc.get_objects(), immortal)
    while wanted:
        batch = wanted[-BATCH:]
        del wanted[-BATCH:]
        wanted += mark(gc.get_referents(*batch), immortal)
    return True


def mark(objects, immortal):
    """Makes those of `objects` immortal that are not. Returns these."""
    marked = []
    for it in objects:
        count = COUNT.from_address(id(it))
        if count.value < SIGN:
            count.value = immortal
            marked.append(it)
    return marked


def fill_pools(library):
    """Takes what is free between objects in the pools of Python's allocator, for good."""
    if sys.getallocatedblocks():  # Else it has none.
        functions = ("PyObject_Malloc", "PyObject_Free")
        pointers = (ctypes.cast(ctypes.pythonapi[name], ctypes.c_void_p) for name in functions)
        library.vivarium_template_fill_pools(*pointers)
