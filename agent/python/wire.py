"""The kernel's side of its control socket: frames in, frames out, and texts cut to size.

A frame is a little-endian u32, the length of what follows it, then a type byte and the
payload. Integers are little-endian; a string is a u32 length and that many bytes of UTF-8.
agent/src/kernel_wire.rs describes each payload and holds the same maxima: more than these is
a violation there, so nothing here may send more.
"""

import posix
from _thread import RLock
from posix import _exit, readv, write

CONTROL_FD = 3

# Frames from the agent.
EXECUTE, CONFIG, COMPLETE, INSPECT, SHOWN = 1, 2, 3, 4, 5
# Frames to the agent.
READY, VALUE, EXCEPTION, DONE, STARTED, DISPLAY = 1, 2, 3, 4, 5, 6
# How an execution completed.
OK, ERROR, INTERRUPTED = 0, 1, 2
# What to do with a display.
SHOW, UPDATE, CLEAR, IMAGE, VIDEO_FRAME = 0, 1, 2, 3, 4
# What became of one.
SENT, NO_ROOM, NO_CHANNEL = 0, 1, 2

TEXT_MAX_BYTES = 1 << 20
NAME_MAX_BYTES = 4 << 10
MESSAGE_MAX_BYTES = 64 << 10
TRACEBACK_MAX_BYTES = 256 << 10
# Of all representations in one frame, however much an execution may give.
RESULT_MAX_BYTES = 45 << 20
# What a display takes of that at least, so that their number is bounded too.
DISPLAY_LEAST_BYTES = 256

# Exit status when the control socket no longer works (EX_OSERR of sysexits.h).
EXIT_CONTROL_LOST = 71
# Exit status when there is no memory to read a frame into.
EXIT_NO_MEMORY = 72

inbox = bytearray()
# Room for what is read: there must be some when the code has used up all memory.
chunk = bytearray(64 << 10)
# What the last system call gave. `sizes.extend(map(call, ...))` stores it before Python looks
# for signals, so it is not lost if a handler of the tenant's raises then.
sizes = []


# Held while a frame is written: threads of the tenant's may display something. Reentrant, for
# the tenant's signal handlers run in between.
lock = RLock()


class State:
    """What changes while the kernel lives. An object: to set a class's attributes is slow."""

    # The execution that displays are for, and how many bytes it may still give.
    shown_for = None
    room = 0
    busy = False
    # Frames that came while a display waited to be taken.
    early = []
    max_text_bytes = TEXT_MAX_BYTES


state = State()


def send(kind, *parts):
    """Sends one frame, all of it, or ends the kernel. The runner's."""
    with lock:
        if kind == DONE:
            state.shown_for = None
        state.busy = True
        try:
            write_frame(kind, parts)
        finally:
            state.busy = False


def send_display(size, *parts):
    """Sends a DISPLAY frame of so many bytes of representations. Says what became of it.

    When it returns, what is printed next comes behind it. For any thread, at any time, also
    within `send`: then, or when nothing runs, it is not sent.
    """
    with lock:
        if state.shown_for is None or state.busy:
            return NO_CHANNEL
        size = max(size, DISPLAY_LEAST_BYTES)
        if size > min(state.room, RESULT_MAX_BYTES):
            return NO_ROOM
        state.room -= size
        state.busy = True
        try:
            write_frame(DISPLAY, (state.shown_for, *parts))
            while True:
                frame = read_frame()
                if frame[0] == SHOWN:
                    return SENT
                state.early.append(frame)
        finally:
            state.busy = False


def write_frame(kind, parts):
    """Writes a frame. With the lock held."""
    payload = b"".join(parts)
    frame = memoryview(number(len(payload) + 1) + bytes([kind]) + payload)
    while frame:
        try:
            sizes.extend(map(write, (CONTROL_FD,), (frame,)))
        except BaseException as error:
            if not sizes:
                recover(error)
                continue
        frame = frame[sizes.pop() :]


def receive():
    """The next frame's type and payload. The runner's."""
    while True:
        frame = state.early.pop(0) if state.early else read_frame()
        # For a display that the code has written by hand, it may be.
        if frame[0] != SHOWN:
            return frame


def read_frame():
    """The next frame's type and payload. Ends the kernel at the end of the stream."""
    while True:
        if len(inbox) >= 4:
            end = 4 + int.from_bytes(inbox[:4], "little")
            if len(inbox) >= end:
                kind, payload = inbox[4], bytes(inbox[5:end])
                del inbox[:end]
                return kind, payload
        try:
            sizes.extend(map(readv, (CONTROL_FD,), ((chunk,),)))
        except BaseException as error:
            if not sizes:
                recover(error)
                continue
        size = sizes.pop()
        if not size:
            _exit(0)
        try:
            inbox.extend(memoryview(chunk)[:size])
        except MemoryError:
            _exit(EXIT_NO_MEMORY)


def recover(error):
    """After an exception out of a read or write: ends the kernel, unless it can go on.

    It can if a signal handler of the tenant's raised, or if the code set O_NONBLOCK.
    """
    try:
        blocking = posix.get_blocking(CONTROL_FD)
        if not blocking:
            posix.set_blocking(CONTROL_FD, True)
        if not blocking or getattr(error, "errno", None) is None:
            return
    except OSError:
        pass
    _exit(EXIT_CONTROL_LOST)


def number(value, size=4):
    """An unsigned integer of `size` bytes."""
    return value.to_bytes(size, "little")


def string(text, max_bytes, keep_end=False):
    """A string of at most `max_bytes`, which says so if there was more of it.

    Never fails: a lone surrogate is sent as its escape.
    """
    text = str.__str__(text)
    data = (text[-max_bytes:] if keep_end else text[:max_bytes]).encode("utf-8", "backslashreplace")
    if len(data) > max_bytes or len(text) > max_bytes:
        note = b"[truncated: %d characters in all]" % len(text)
        room = max(max_bytes - len(note) - 1, 0)
        cut = data[len(data) - room :] if keep_end else data[:room]
        cut = cut.decode("utf-8", "ignore").encode()
        data = note + b"\n" + cut if keep_end else cut + b" " + note
    return number(len(data)) + data


def size_of(representations):
    """How much representations take of what an execution may give, as the agent counts it too."""
    return sum(len(mime_type) + len(data) for mime_type, data in representations)


def forms(representations):
    """Representations, (MIME type, bytes) each, as they stand in a frame, in pieces."""
    pieces = [number(len(representations))]
    for mime_type, data in representations:
        pieces += string(mime_type, NAME_MAX_BYTES), number(len(data)), data
    return pieces
