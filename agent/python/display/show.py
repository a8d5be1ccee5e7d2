"""What the code shows: `display` and its kin, and whoever has an image to show.

A display goes to the agent as a frame of its own, in its place among what is printed: the
tenant's streams are flushed before it. Where it can not go (a forked child has no channel, a
thread may outlive its execution), its text is printed instead.

Must not be loaded before something is shown: see interactive.py.
"""

import guard
import render
import wire
from guard import entered, foreign, interruptible, posix, sys


class State:
    """What changes while the kernel lives."""

    # The execution in which `clear_output(wait=True)` waits for the next display.
    clears = None


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


def clear_output(wait=False):
    """IPython's `clear_output`."""
    State.clears = wire.state.shown_for if wait else None
    if not wait:
        send(wire.CLEAR, ())


def new_id():
    return posix.urandom(16).hex()


def image(data, kind=wire.IMAGE, mime_type="image/png"):
    """Shows an image. Says whether there is room for more."""
    return send(kind, [(mime_type, data)])


def send(kind, forms, display_id=""):
    """Sends a display, or prints its text where that can not be. Says whether there is room."""
    flush()
    if guard.is_forked():
        instead(forms)
        return True
    if State.clears is not None and kind != wire.CLEAR:
        waited, State.clears = State.clears, None
        if waited == wire.state.shown_for:
            send(wire.CLEAR, ())
    display_id = wire.string(display_id, wire.NAME_MAX_BYTES)
    size = wire.size_of(forms)
    came = wire.send_display(size, bytes([kind]), display_id, *wire.forms(forms))
    if came == wire.NO_CHANNEL:
        instead(forms)
    if came == wire.NO_ROOM:
        render.no_room("a display", size)
    return came != wire.NO_ROOM


def flush():
    """Flushes the tenant's streams, so that what was printed before comes before."""
    for name in ("stdout", "stderr"):
        try:
            foreign(getattr(sys, name).flush)
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass


def instead(forms):
    """Prints what is shown elsewhere."""
    for mime_type, data in forms:
        text = "<%s, %d bytes>" % (mime_type, len(data))
        if mime_type == render.PLAIN:
            text = data.decode("utf-8", "replace")
        try:
            foreign(print, text)
        except RuntimeError:
            # In a signal handler, while the stream is in use.
            posix.write(1, (text + "\n").encode("utf-8", "backslashreplace"))
        return


def write_note(text):
    """Tells the reader of standard error something, past what the code made of sys.stderr."""
    flush()
    try:
        posix.write(2, b"vivarium: %s\n" % text.encode("utf-8", "backslashreplace"))
    except OSError:
        pass


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
