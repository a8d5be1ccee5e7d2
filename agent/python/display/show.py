"""What the code shows: `display` and its kin.

Must not be loaded before something is shown: see interactive.py.
"""

import render
import wire
from guard import entered, foreign, interruptible, posix
from publisher import clear_output, send


def display(
    *objects,
    include=None,
    exclude=None,
    metadata=None,
    transient=None,
    display_id=None,
    raw=False,
    clear=False,
    update=False,
    **options,
):
    """IPython's `display`. Its other options are for its own formatters."""
    if update and display_id is None:
        raise TypeError("display_id is required to update a display")
    if clear:
        clear_output(wait=True)
    if display_id is None and type(transient) is dict:
        display_id = transient.get("display_id")
    handle = None
    if display_id is not None:
        display_id = new_id() if display_id is True else foreign(str, display_id)
        handle = DisplayHandle(display_id)
    for value in objects:
        if raw:
            forms = raw_forms(value)
        else:
            forms = render.of_display(value, include, exclude)
        if forms is not None:
            send(wire.UPDATE if update else wire.SHOW, forms, display_id or "")
    return handle


def raw_forms(bundle):
    """The forms of a bundle that is given as such."""
    forms = []
    for name, data in bundle.items():
        if isinstance(name, str):
            name = str.__str__(name)
            forms.append((name, render.encoded(name, data)))
    return [(name, data) for name, data in forms if data is not None][: render.FORMS_MAX]


def new_id():
    return posix.urandom(16).hex()


class DisplayHandle:
    """What `display` gives for a display_id: shows other objects in the same place."""

    __module__ = "IPython.display"

    @interruptible
    def __init__(self, display_id=None):
        self.display_id = new_id() if display_id is None else display_id

    @interruptible
    def display(self, value, **options):
        return entered(display, value, display_id=self.display_id, **options)

    @interruptible
    def update(self, value, **options):
        return entered(display, value, display_id=self.display_id, update=True, **options)

    @interruptible
    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % (self.display_id,)
