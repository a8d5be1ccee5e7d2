"""The kernel's side of its control socket: reads and writes frames, and truncates texts.

A frame is a little-endian u32, the length of the rest, then a type byte and the payload. Integers
are little-endian; a string is a u32 length and that many bytes of UTF-8. agent/src/kernel/wire.rs
describes each payload and has the same maxima: it takes anything larger for a violation.
"""

import posix
from _thread import RLock
from posix import _exit, readv, write

from guard import raised_by_user

CONTROL_FD = 3

# Frames from the agent.
EXECUTE, CONFIG, COMPLETE, INSPECT, SHOWN, IS_COMPLETE = 1, 2, 3, 4, 5, 6
CHECK_IMAGE, SAVE_IMAGE, LOAD_IMAGE, SAVE_MEMORY = 7, 8, 9, 10
# Frames to the agent.
READY, VALUE, EXCEPTION, DONE, STARTED, DISPLAY, ACCOUNT = 1, 2, 3, 4, 5, 6, 7
OK, ERROR, INTERRUPTED, WORK_LIMIT = 0, 1, 2, 3
# The kinds of DISPLAY frames.
SHOW, UPDATE, CLEAR, IMAGE, VIDEO_FRAME = 0, 1, 2, 3, 4
# Outcomes of a display.
SENT, TOO_LARGE, NO_CHANNEL = 0, 1, 2

TEXT_MAX_BYTES = 1 << 20
NAME_MAX_BYTES = 4 << 10
MESSAGE_MAX_BYTES = 64 << 10
TRACEBACK_MAX_BYTES = 256 << 10
# Of an account: its JSON, distinct audit events, calls of print, and values of a call.
ACCOUNT_MAX_BYTES = 256 << 10
AUDIT_EVENTS_MAX, PRINTS_MAX, PRINT_VALUES_MAX = 257, 1000, 64
# Of all representations in one frame, whatever limit the execution has.
RESULT_MAX_BYTES = 45 << 20
# A display counts as at least so much of an execution's limit, which bounds their number too.
DISPLAY_LEAST_BYTES = 256

# Exit status if the control socket does not work any more (EX_OSERR of sysexits.h).
EXIT_CONTROL_LOST = 71
# Exit status if there is no memory to read a frame into.
EXIT_NO_MEMORY = 72

# Frames are read into this: there must be some when user code has used up all memory.
chunk = bytearray(64 << 10)

# Held while a frame is written, since any of the user's threads may display something. Reentrant,
# since the user's signal handlers may, too.
lock = RLock()


class State:
    """The kernel's mutable state. An object, since setting class attributes is slow.

    The user's signal handlers may raise between any two instructions, but not inside one call of a
    C function. So one `vars(state).update` changes related fields, and one `extend` by a
    `map` makes a system call and notes its result. The next step continues from there: no frame
    is torn or lost, sent twice or accepted twice.
    """

    # The frames that are being written, and how many bytes each write took.
    outbox = b""
    write_counts: list = []
    # The buffer for the next frame, and how many bytes each read gave.
    inbox = chunk
    read_counts: list = []
    # Type and payload of each request that is not answered yet.
    requests: list = []
    # How many displays the agent has not acknowledged.
    unacknowledged = 0
    # The running execution, as 8 bytes, and how many bytes of results it has left.
    execution_number: "bytes | None" = None
    bytes_left = 0
    busy = False
    max_text_bytes = TEXT_MAX_BYTES
    # Of the running execution's reprs.
    max_items = max_chars = max_depth = 0xFFFFFFFF


state = State()


def frame(kind, *parts):
    """A frame, in pieces."""
    return (number(sum(map(len, parts)) + 1), bytes([kind]), *parts)


def send(kind, *parts):
    """Sends one frame, or ends the kernel. For the main loop only."""
    post(frame(kind, *parts))


def answer(frames):
    """Sends the frames, in pieces, that answer the first request, and removes that request."""
    post(frames, requests=state.requests[1:], execution_number=None)


def send_display(size, *parts):
    """Sends a DISPLAY frame with `size` bytes of representations. Returns its outcome.

    Output printed after it returns comes after the display. Any thread may call it at any time;
    inside `send`, or when no execution runs, it sends nothing.
    """
    with lock:
        if state.execution_number is None or state.busy:
            return NO_CHANNEL
        size = max(size, DISPLAY_LEAST_BYTES)
        if size > min(state.bytes_left, RESULT_MAX_BYTES):
            return TOO_LARGE
        state.bytes_left -= size
        post(
            frame(DISPLAY, state.execution_number, *parts),
            read_frames,
            unacknowledged=state.unacknowledged + 1,
        )
        return SENT


def read_frames():
    """Reads until the agent has acknowledged all displays."""
    while state.unacknowledged:
        read_frame()


def post(frames, wait=None, **changes):
    """Writes frames, given in pieces. `changes` take effect as the frames enter the outbox."""
    data = memoryview(b"".join(frames))
    with lock:
        state.busy = True
        try:
            write_outbox()
            vars(state).update(changes, outbox=data, write_counts=[])
            write_outbox()
            if wait is not None:
                wait()
        finally:
            state.busy = False


def write_outbox():
    """Writes the outbox. The caller holds the lock."""
    while state.outbox:
        rest = state.outbox[sum(state.write_counts) :]
        if not rest:
            vars(state).update(outbox=b"", write_counts=[])
            return
        try:
            state.write_counts.extend(map(write, (CONTROL_FD,), (rest,)))
        except BaseException as error:
            recover(error)


def receive():
    """Waits for a request. For the main loop only."""
    if state.outbox:
        with lock:
            write_outbox()
    while not state.requests:
        read_frame()


def read_frame():
    """Reads one frame: a request, or the acknowledgement of a display.

    Ends the kernel at the end of the stream.
    """
    while True:
        size = sum(state.read_counts)
        data = memoryview(state.inbox)
        end = 4 + (int.from_bytes(data[:4], "little") if size >= 4 else 0)
        try:
            if size > 4 and size >= end:
                accept(data[4:end], data[end:size])
                return
            if end > len(data):
                state.inbox = buffer_with(data[:size], end)
                continue
        except MemoryError:
            _exit(EXIT_NO_MEMORY)
        try:
            state.read_counts.extend(map(readv, (CONTROL_FD,), ((data[size:],),)))
        except BaseException as error:
            recover(error)
            continue
        if not state.read_counts[-1]:
            _exit(0)


def accept(data, rest):
    """Accepts a frame. `rest` is what was read after it."""
    if data[0] == SHOWN:
        # User code may have written a display of its own to the socket.
        changes: dict = {"unacknowledged": max(state.unacknowledged - 1, 0)}
    else:
        changes = {"requests": [*state.requests, (data[0], bytes(data[1:]))]}
    inbox, read_counts = (buffer_with(rest, len(chunk)), [len(rest)]) if rest else (chunk, [])
    vars(state).update(changes, inbox=inbox, read_counts=read_counts)


def parse_execute(payload):
    """File name, directory, variables, policy and source of an EXECUTE frame's rest."""
    filename, at = string_at(payload, 0)
    cwd, at = string_at(payload, at)
    variables = []
    count, at = int.from_bytes(payload[at : at + 4], "little"), at + 4
    for _ in range(count):
        name, at = string_at(payload, at)
        value, at = string_at(payload, at)
        variables.append((name, value))
    policy, at = string_at(payload, at)
    return filename, cwd, variables, policy, string_at(payload, at)[0]


def string_at(payload, at):
    """The string at this place, and the place after it."""
    end = at + 4 + int.from_bytes(payload[at : at + 4], "little")
    return payload[at + 4 : end].decode(), end


def buffer_with(data, size):
    """A buffer of at least `size` bytes that begins with `data`."""
    buffer = bytearray(max(size, len(data)))
    buffer[: len(data)] = data
    return buffer


def recover(error):
    """Handles an exception of a read or write. Returns if the caller shall try again.

    Raises again what a signal handler of the user's raised. Ends the kernel if the socket fails.
    """
    try:
        if not posix.get_blocking(CONTROL_FD):
            posix.set_blocking(CONTROL_FD, True)
            return
    except OSError:
        _exit(EXIT_CONTROL_LOST)
    if getattr(error, "errno", None) is None or raised_by_user(error):
        raise error
    _exit(EXIT_CONTROL_LOST)


def number(value, size=4):
    """An unsigned integer of `size` bytes."""
    return value.to_bytes(size, "little")


def string(text, max_bytes, keep_end=False):
    """A string of at most `max_bytes`, with a note if the text was longer.

    Never fails: sends the escape of a lone surrogate.
    """
    text = str.__str__(text)
    data = (text[-max_bytes:] if keep_end else text[:max_bytes]).encode("utf-8", "backslashreplace")
    if len(data) > max_bytes or len(text) > max_bytes:
        note = b"[truncated: %d characters in all]" % len(text)
        size = max(max_bytes - len(note) - 1, 0)
        cut = data[len(data) - size :] if keep_end else data[:size]
        cut = cut.decode("utf-8", "ignore").encode()
        data = note + b"\n" + cut if keep_end else cut + b" " + note
    return number(len(data)) + data


def repr_string(text):
    """A repr, as short as the execution wants it."""
    text = str.__str__(text)
    if len(text) > state.max_chars:
        note = " [truncated: %d characters in all]" % len(text)
        text = text[: max(state.max_chars - len(note), 0)] + note
    return string(text, state.max_text_bytes)


def size_of(representations):
    """How many bytes of an execution's limit these take, as the agent counts them too."""
    return sum(len(mime_type) + len(data) for mime_type, data in representations)


def json_value(text):
    """The kind and the pieces of a VALUE that answers a question: JSON, without a type."""
    return (
        VALUE,
        string("", 0),
        string("", 0),
        *encode_representations([("application/json", text)]),
    )


def encode_representations(representations):
    """Representations, each a pair of MIME type and bytes, as a frame has them, in pieces."""
    pieces = [number(len(representations))]
    for mime_type, data in representations:
        pieces += string(mime_type, NAME_MAX_BYTES), number(len(data)), data
    return pieces
