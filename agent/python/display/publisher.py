"""Sends displays to the agent, each as a frame of its own.

Flushes the streams first, so that a display comes in order with printed output. Where no frame can
be sent (a forked child has no control socket, a thread may outlive its execution), prints the
display's text instead.
"""

import guard
import wire
from guard import call_user, posix
from streams import flush_in_use, write_note

PLAIN = "text/plain"


class State:
    # The execution whose next display carries out `clear_output(wait=True)`.
    clear_pending: "bytes | None" = None
    # The displays that `%%capture` collects, while it does.
    collected: "list | None" = None
    # The last execution that got a note about a display too large for its limit.
    size_noted_for: "bytes | None" = None


state = State()


def clear_output(wait=False):
    """IPython's `clear_output`."""
    state.clear_pending = wire.state.execution_number if wait else None
    if not wait:
        publish(wire.CLEAR, ())


def publish_image(data, kind=wire.IMAGE, mime_type="image/png"):
    """Sends an image. Returns whether it fitted into the limit of the execution."""
    return publish(kind, [(mime_type, data)])


def publish(kind, representations, display_id=""):
    """Sends a display or prints its text. Returns whether it fitted into the execution's limit."""
    if state.collected is not None and not guard.is_forked():
        if kind != wire.CLEAR:
            state.collected.append(representations)
        return True
    flush_in_use()
    if guard.is_forked():
        print_instead(representations)
        return True
    if state.clear_pending is not None and kind != wire.CLEAR:
        waited, state.clear_pending = state.clear_pending, None
        if waited == wire.state.execution_number:
            publish(wire.CLEAR, ())
    display_id = wire.string(display_id, wire.NAME_MAX_BYTES)
    size = wire.size_of(representations)
    outcome = wire.send_display(
        size, bytes([kind]), display_id, *wire.encode_representations(representations)
    )
    if outcome == wire.NO_CHANNEL:
        print_instead(representations)
    if outcome == wire.TOO_LARGE:
        note_too_large("a display", size)
    return outcome != wire.TOO_LARGE


def print_instead(representations):
    """Prints the first representation, or its size if it is no plain text."""
    for mime_type, data in representations:
        text = "<%s, %d bytes>" % (mime_type, len(data))
        if mime_type == PLAIN:
            text = data.decode("utf-8", "replace")
        try:
            call_user(print, text)
        except RuntimeError:
            # In a signal handler, while the interrupted code uses the stream.
            posix.write(1, (text + "\n").encode("utf-8", "backslashreplace"))
        return


def note_too_large(what, size):
    """Notes on standard error that something did not fit, once per execution."""
    if state.size_noted_for != wire.state.execution_number:
        state.size_noted_for = wire.state.execution_number
        write_note(
            "%s (%d bytes) is left out: the execution may not give so much more" % (what, size)
        )
