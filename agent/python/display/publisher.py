"""Sends what is shown to the agent, each display as a frame of its own.

Its place is among what is printed: the tenant's streams are flushed before it. Where it can not go
(a forked child has no channel, a thread may outlive its execution), its text is printed instead.
"""

import guard
import wire
from guard import foreign, posix
from streams import flush_users, write_note

PLAIN = "text/plain"


class State:
    """What changes while the kernel lives."""

    # The execution in which `clear_output(wait=True)` waits for the next display.
    clears = None
    # The execution that was told that something of it does not fit.
    told_of_room = None


def clear_output(wait=False):
    """IPython's `clear_output`."""
    State.clears = wire.state.shown_for if wait else None
    if not wait:
        send(wire.CLEAR, ())


def image(data, kind=wire.IMAGE, mime_type="image/png"):
    """Shows an image. Says whether there is room for more."""
    return send(kind, [(mime_type, data)])


def send(kind, forms, display_id=""):
    """Sends a display, or prints its text where that can not be. Says whether there is room."""
    flush_users()
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
        no_room("a display", size)
    return came != wire.NO_ROOM


def instead(forms):
    """Prints what is shown elsewhere."""
    for mime_type, data in forms:
        text = "<%s, %d bytes>" % (mime_type, len(data))
        if mime_type == PLAIN:
            text = data.decode("utf-8", "replace")
        try:
            foreign(print, text)
        except RuntimeError:
            # In a signal handler, while the stream is in use.
            posix.write(1, (text + "\n").encode("utf-8", "backslashreplace"))
        return


def no_room(what, size):
    """Says that something did not fit: once per execution, for more of it often follows."""
    if State.told_of_room != wire.state.shown_for:
        State.told_of_room = wire.state.shown_for
        write_note("%s (%d bytes) is left out: the execution may not give so much more" % (what, size))
