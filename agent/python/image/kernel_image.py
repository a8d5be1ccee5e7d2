"""Images: the kernel's memory, written to a pipe, and another's put in its place.

The agent's library does both (agent/src/image.rs). To be saved, a kernel must be one thread that
was forked from a template. What the system keeps for a process, and no memory has, is
process_state.py's.

Whoever reads this must keep in mind that `save` returns in two processes: in the one that called
it, and in each that an image of it is loaded into, with the memory of that moment.
"""

import guard
import on_resume
import pools
import process_state
import streams
import variables
import wire
from classes import type_name
from guard import Any, posix

ctypes: Any = guard.load("ctypes")
json: Any = guard.load("json")

REASON_BYTES = 500
# What is the session's own beside the workdir, with the mounts layer, which images need.
TEMPORARY = "/tmp", "/dev/shm"


class State:
    # The agent's library; None in a kernel that was executed.
    library: Any = None
    # The child that writes the last image, if nobody has waited for it.
    writer = 0


state = State()


def serve(kind, number):
    """Serves one of the frames of images."""
    wire.send(wire.STARTED, number)
    streams.flush()
    if kind == wire.CHECK_IMAGE:
        answer(number, obstacles=obstacles())
        return
    descriptor = receive()
    if kind == wire.LOAD_IMAGE:
        why = load(descriptor, int.from_bytes(number, "little"))
        close(descriptor)
        answer(number, obstacles=[("other", why)])
        return
    names, names_more = [], True
    try:
        # Memory that can not be saved is found as it is.
        is_main = kind == wire.SAVE_IMAGE
        roots = files_roots() if is_main else ()
        found = obstacles(descriptor, memory=False) or save_files(descriptor, roots)
        if is_main and not found:
            names, names_more = variables.gather()
        resumed_as = None if found else save(descriptor, process_state.note((descriptor,)), found)
    except Exception as error:
        found, resumed_as = [("other", describe(error))], None
    if resumed_as is None:
        close(descriptor)
        answer(number, obstacles=found, names=names, names_more=names_more)


def receive():
    """The descriptor that follows on STARTED, or -1."""
    if state.library is None:
        posix.read(wire.CONTROL_FD, 1)  # It goes without its descriptor.
        return -1
    return state.library.vivarium_image_receive(wire.CONTROL_FD)


def close(descriptor):
    if descriptor >= 0:
        posix.close(descriptor)


def answer(number, **content):
    """Answers the request with JSON."""
    kind, *pieces = wire.json_value(json.dumps(content).encode())
    wire.answer(
        (*wire.frame(kind, number, *pieces), *wire.frame(wire.DONE, number, bytes([wire.OK])))
    )


def obstacles(*descriptors, memory=True):
    """Why this kernel can not be saved, each a kind and a text: none if it can. `descriptors` are
    its own."""
    if state.library is None:
        return [("executed", "it was executed, and not forked from a template")]
    reap()
    pools.end_idle_threads()
    found = process_state.obstacles(descriptors)
    reason = ctypes.create_string_buffer(REASON_BYTES)
    if memory and not found and state.library.vivarium_image_check(reason, REASON_BYTES):
        found = [("memory", text_of(reason))]
    return found


def reap():
    """Waits for the child that wrote the last image."""
    if state.writer:
        state.library.vivarium_image_wait(state.writer)
        state.writer = 0


def files_roots():
    """Where the session's files are."""
    return guard.workdir(), *TEMPORARY


def save_files(descriptor, roots):
    """Writes the session's files, or none. Returns what keeps them from being saved."""
    paths = b"".join(root.encode() + b"\0" for root in roots) + b"\0"
    reason = ctypes.create_string_buffer(REASON_BYTES)
    failed = state.library.vivarium_image_save_files(descriptor, paths, reason, REASON_BYTES)
    return [("files", text_of(reason))] if failed else []


def save(descriptor, process, found):
    """Begins to write this kernel's memory. Returns the number to answer under in the process that
    it is loaded into, and None in this one; what keeps it from being saved is added to `found`."""
    number, reason = ctypes.c_uint64(), ctypes.create_string_buffer(REASON_BYTES)
    writer = state.library.vivarium_image_save(
        descriptor, ctypes.byref(number), reason, REASON_BYTES
    )
    if writer < 0:
        found.append(("memory", text_of(reason)))
        return None
    if writer > 0:
        state.writer = writer
        return None
    resume(number.value.to_bytes(8, "little"), process)
    return number.value


def load(descriptor, number):
    """Becomes another kernel. Returns, with the reason, only if it can not."""
    reason = ctypes.create_string_buffer(REASON_BYTES)
    if state.library is None:
        return "this kernel was executed, and not forked from a template"
    state.library.vivarium_image_load(descriptor, ctypes.c_uint64(number), reason, REASON_BYTES)
    return text_of(reason)


def text_of(reason):
    return reason.value.decode("utf-8", "replace")


def resume(number, process):
    """Goes on with what was saved, in another process."""
    state.writer = 0
    guard.state.pid = posix.getpid()
    try:
        lost = process_state.restore(process)
    except Exception as error:
        lost = [describe(error)]
    on_resume.call_all()
    answer(number, obstacles=[("other", why) for why in lost])


def describe(error):
    return "%s: %s" % (type_name(type(error)), error)
