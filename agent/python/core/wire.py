"""The kernel's side of its control socket: frames in, frames out, and texts cut to size.

A frame is a little-endian u32, the length of what follows it, then a type byte and the
payload. Integers are little-endian; a string is a u32 length and that many bytes of UTF-8.
agent/src/kernel_wire.rs describes each payload and holds the same maxima: more than these is
a violation there, so nothing here may send more.
"""

import posix
from _thread import RLock
from posix import _exit, readv, write

from guard import is_foreign

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

# Room for what is read: there must be some when the code has used up all memory.
chunk = bytearray(64 << 10)

# Held while a frame is written: threads of the tenant's may display something. Reentrant, for
# the tenant's signal handlers run in between.
lock = RLock()


class State:
    """What changes while the kernel lives. An object: to set a class's attributes is slow.

    The tenant's signal handlers may raise between any two of our instructions, but not within one
    call of a C function. So what belongs together is changed by one `vars(state).update`, and the
    list of what system calls gave is extended by the call of the `map` that makes them. Whoever is
    next goes on from there: no frame is torn, lost, or sent or taken twice.
    """

    # Frames that are being written, and the bytes that each write took of them.
    outbox = b""
    written = []
    # What is being read, and the bytes that each read gave.
    inbox = chunk
    was_read = []
    # Type and payload of what came and is not answered yet.
    requests = []
    # Displays of which the agent has not said that it took them.
    untaken = 0
    # The execution that displays are for, and how many bytes it may still give.
    shown_for = None
    room = 0
    busy = False
    max_text_bytes = TEXT_MAX_BYTES


state = State()


def frame(kind, *parts):
    """A frame as it is written, in pieces."""
    return (number(sum(map(len, parts)) + 1), bytes([kind]), *parts)


def send(kind, *parts):
    """Sends one frame, all of it, or ends the kernel. The runner's."""
    post(frame(kind, *parts))


def answer(frames):
    """Sends the frames, in pieces, that answer the first request, and takes that from the list."""
    post(frames, requests=state.requests[1:], shown_for=None)


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
        post(frame(DISPLAY, state.shown_for, *parts), read_frames, untaken=state.untaken + 1)
        return SENT


def read_frames():
    """Reads until the agent has taken all displays."""
    while state.untaken:
        read_frame()


def post(frames, wait=None, **changes):
    """Writes frames, given in pieces. They are in the outbox when `changes` come to hold."""
    data = memoryview(b"".join(frames))
    with lock:
        state.busy = True
        try:
            write_outbox()
            vars(state).update(changes, outbox=data, written=[])
            write_outbox()
            if wait is not None:
                wait()
        finally:
            state.busy = False


def write_outbox():
    """Writes what is in the outbox. With the lock held."""
    while state.outbox:
        rest = state.outbox[sum(state.written) :]
        if not rest:
            vars(state).update(outbox=b"", written=[])
            return
        try:
            state.written.extend(map(write, (CONTROL_FD,), (rest,)))
        except BaseException as error:
            recover(error)


def receive():
    """Waits for a request. The runner's."""
    if state.outbox:
        with lock:
            write_outbox()
    while not state.requests:
        read_frame()


def read_frame():
    """Takes in the next frame: a request, or that a display was taken.

    Ends the kernel at the end of the stream.
    """
    while True:
        size = sum(state.was_read)
        data = memoryview(state.inbox)
        end = 4 + (int.from_bytes(data[:4], "little") if size >= 4 else 0)
        try:
            if size > 4 and size >= end:
                take(data[4:end], data[end:size])
                return
            if end > len(data):
                state.inbox = bytes_from(data[:size], end)
                continue
        except MemoryError:
            _exit(EXIT_NO_MEMORY)
        try:
            state.was_read.extend(map(readv, (CONTROL_FD,), ((data[size:],),)))
        except BaseException as error:
            recover(error)
            continue
        if not state.was_read[-1]:
            _exit(0)


def take(data, rest):
    """Takes a frame, and leaves what was read behind it."""
    if data[0] == SHOWN:
        # None is owed if the code has written a display by hand.
        changes = {"untaken": max(state.untaken - 1, 0)}
    else:
        changes = {"requests": [*state.requests, (data[0], bytes(data[1:]))]}
    inbox, was_read = (bytes_from(rest, len(chunk)), [len(rest)]) if rest else (chunk, [])
    vars(state).update(changes, inbox=inbox, was_read=was_read)


def bytes_from(data, size):
    """Room for at least `size` bytes, with `data` at its beginning."""
    room = bytearray(max(size, len(data)))
    room[: len(data)] = data
    return room


def recover(error):
    """After an exception out of a read or write: returns if that is to be tried again.

    Raises what a signal handler of the tenant's raised, and ends the kernel if the socket fails.
    """
    try:
        if not posix.get_blocking(CONTROL_FD):
            posix.set_blocking(CONTROL_FD, True)
            return
    except OSError:
        _exit(EXIT_CONTROL_LOST)
    if getattr(error, "errno", None) is None or is_foreign(error):
        raise error
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
