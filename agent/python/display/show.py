"""IPython's `display` and `DisplayHandle`.

Must not be loaded before user code displays something: see interactive.py.
"""

import render
import wire
from guard import call_for_user, call_user, interruptible, posix
from publisher import clear_output, publish


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
    """IPython's `display`. Ignores the options for IPython's own formatters."""
    if update and display_id is None:
        raise TypeError("display_id is required to update a display")
    if clear:
        clear_output(wait=True)
    if display_id is None and type(transient) is dict:
        display_id = transient.get("display_id")
    handle = None
    if display_id is not None:
        display_id = new_id() if display_id is True else call_user(str, display_id)
        handle = DisplayHandle(display_id)
    for value in objects:
        if raw:
            representations = encode_bundle(value)
        else:
            representations = render.of_display(value, include, exclude)
        if representations is not None:
            publish(wire.UPDATE if update else wire.SHOW, representations, display_id or "")
    return handle


def encode_bundle(bundle):
    """The representations in a MIME bundle."""
    encoded = []
    for key, data in bundle.items():
        if isinstance(key, str):
            name = str.__str__(key)
            encoded.append((name, render.encode_or_none(name, data)))
    return [(name, data) for name, data in encoded if data is not None][
        : render.REPRESENTATIONS_MAX
    ]


def decode_bundle(representations):
    """A MIME bundle as `encode_bundle` takes it: text as str, all else as bytes."""
    decoded: dict = {}
    for name, data in representations:
        try:
            decoded[name] = data.decode()
        except UnicodeDecodeError:
            decoded[name] = data
    return decoded


def new_id():
    return posix.urandom(16).hex()


class DisplayHandle:
    """What `display` returns for a display_id: displays other objects in the same place."""

    __module__ = "IPython.display"

    @interruptible
    def __init__(self, display_id=None):
        self.display_id = new_id() if display_id is None else display_id

    @interruptible
    def display(self, value, **options):
        call_for_user(display, value, display_id=self.display_id, **options)

    @interruptible
    def update(self, value, **options):
        call_for_user(display, value, display_id=self.display_id, update=True, **options)

    @interruptible
    def __repr__(self):
        return "<DisplayHandle display_id=%s>" % (self.display_id,)
