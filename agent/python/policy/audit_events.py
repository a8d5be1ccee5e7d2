"""Counts audit events (PEP 578) while an execution runs, and refuses some.

A hook cannot be removed, so code cannot remove this one, which costs a call for each event of the
process once it is there. It is no wall: code can do without Python what Python would have raised an
event for.

Events of the kernel's own do not count. What the import system does for an import is counted and
never refused: who denies `open` does not mean that nothing can be imported.
"""

from guard import FILE_PREFIX, Any, get_ident, interruptible, is_kernel_code, load, sys
from source_cache import is_of_execution
from tenant_code import is_import_systems

NAMES_MAX = 256
NAME_MAX_CHARS = 100
# The rest, once there are so many names.
OTHER = "other"

# Its functions stand between code and the import system where there is a list of imports.
IMPORT_POLICY = FILE_PREFIX + "import_policy.py>"

getframe = sys._getframe


class State:
    is_added = False
    counts: Any = None
    denied: frozenset = frozenset()
    noted: dict = {}
    # Threads that are in the hook.
    inside: set = set()


state = State()


def begin(rule):
    if not state.is_added:
        sys.addaudithook(hook)
        state.is_added = True
    state.denied = frozenset(rule["deny"])
    state.counts = {}
    state.noted = state.counts
    state.inside = set()


def end():
    state.counts = None


def noted():
    return state.noted


@interruptible
def hook(event, arguments):
    thread = get_ident()
    if state.counts is None or thread in state.inside:
        return
    # To look at frames raises events, too.
    state.inside.add(thread)
    try:
        note_event(event, state.counts, getframe().f_back)
    finally:
        state.inside.discard(thread)


@interruptible
def note_event(event, counts, innermost):
    if event == "sys._getframe" and is_import_policys(innermost):
        return  # It looks for who imports.
    while is_import_policys(innermost):
        innermost = innermost.f_back
    frame = innermost
    while frame is not None and (is_import_systems(frame) or is_import_policys(frame)):
        frame = frame.f_back
    if frame is None or is_kernel_code(frame.f_code) or is_loading(frame):
        return
    name = name_in(counts, event)
    counts[name] = counts.get(name, 0) + 1
    if event in state.denied and not is_import_systems(innermost):
        raise PermissionError("the audit event %r is denied in this execution" % event)


@interruptible
def is_loading(frame):
    """Whether the kernel imports a module for itself, for which libraries raise events too."""
    while frame is not None and not is_of_execution(frame.f_code.co_filename):
        if frame.f_code is load.__code__:
            return True
        frame = frame.f_back
    return False


@interruptible
def name_in(counts, event):
    """What an event is counted as. One that is denied takes the place of one that is not."""
    name = event.encode("utf-8", "replace").decode()[:NAME_MAX_CHARS]
    if name in counts or len(counts) < NAMES_MAX:
        return name
    for other in list(counts) if event in state.denied else ():
        if other not in state.denied and other != OTHER:
            counts[OTHER] = counts.get(OTHER, 0) + counts.pop(other, 0)
            return name
    return OTHER


@interruptible
def is_import_policys(frame):
    return frame is not None and frame.f_code.co_filename == IMPORT_POLICY
