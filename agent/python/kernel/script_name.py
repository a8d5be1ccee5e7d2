"""Code with a file name: gives it what `python FILE` would.

If the name is that of a file in the workdir, `__main__` has its `__file__`, and modules beside the
file can be imported, both until the next execution. Processes that multiprocessing spawns then find
`__main__` too: they run the file anew. Without a file they cannot, and a pool waits for them for
ever.
"""

from guard import FILE_PREFIX, main_module, posix, sys, workdir

REGULAR, KIND = 0o100000, 0o170000


class State:
    # What the last execution added to `__main__` and to `sys.path`.
    file: "str | None" = None
    directory = ""


state = State()


def begin(filename):
    """Prepares `__main__` for an execution. Returns the name that its code is compiled under."""
    if state.file is not None:
        end()
    # Tracebacks leave out what has the kernel's prefix.
    if not filename or filename.startswith(FILE_PREFIX):
        return None
    # Not the working directory, which user code may have changed.
    path = "%s/%s" % (workdir(), filename)
    if not is_file(path):
        return filename
    state.file, state.directory = path, path.rpartition("/")[0]
    vars(main_module)["__file__"] = path
    sys.path.insert(0, state.directory)
    return path


def end():
    """Takes back what `begin` added, unless user code has changed it."""
    file, state.file = state.file, None
    names = vars(main_module)
    if names.get("__file__") == file:
        del names["__file__"]
    if state.directory in sys.path:
        sys.path.remove(state.directory)


def is_file(path):
    try:
        return posix.stat(path).st_mode & KIND == REGULAR
    except OSError:
        return False
