"""The packages that a session installs while it runs.

They are in a virtual environment in the workdir, which the session's `pip` makes on first use
(agent/protocol/src/one_python). The kernel is not of that environment: it has its directory on
`sys.path`, before the interpreter's own packages, from the start.
"""

import posix
import sys

from guard import call_user, load
from streams import write_note

SHADOWED = "%s was imported before it was installed: reset the session to use what is installed now"

# Of a distribution with 50,000 files.
RECORD_MAX_CHARS = 1 << 23


class State:
    # The virtual environment; empty if the session has none, as in a template.
    root = ""
    directory = ""
    # Finds modules in the directory, once that is on sys.path: none or one.
    finders: list = []
    # When the directory last changed, as far as the kernel has seen.
    changed_ns = 0
    # The .pth files that were executed. The first leads to the interpreter's own packages.
    executed: set = {"_environment.pth"}


state = State()


def start():
    """Lets imports find packages that are installed later. Costs a look at a missing directory."""
    root = posix.environ.get(b"VIVARIUM_PACKAGES", b"").decode("utf-8", "surrogateescape")
    external = sys.modules.get("_frozen_importlib_external")
    if not root or external is None:
        return
    state.root = root
    state.directory = "%s/lib/python%d.%d/site-packages" % (root, *sys.version_info[:2])
    path = sys.path
    ends = ("/site-packages", "/dist-packages")
    at = next((at for at, entry in enumerate(path) if entry.endswith(ends)), len(path))
    path.insert(at, state.directory)
    # Python would not look again at a directory that is missing at the first import.
    loaders = external._get_supported_file_loaders()
    finder = external.FileFinder(state.directory, *loaders)
    sys.path_importer_cache[state.directory] = finder
    state.finders = [finder]


def refresh():
    """Takes note of what was installed since the last call."""
    if not state.root or not posix.access(state.directory, posix.F_OK):
        return
    try:
        changed_ns = posix.stat(state.directory).st_mtime_ns
        if changed_ns == state.changed_ns:
            return
        state.changed_ns = changed_ns
        names = sorted(posix.listdir(state.directory))
    except OSError:
        return  # It is being removed, or something else is in its place.
    for finder in state.finders:
        finder.invalidate_caches()
    python = state.root + "/bin/python"
    if posix.access(python, posix.X_OK):
        # Programs that code starts by it are to find the packages too.
        sys.executable = python
    new = [name for name in names if name.endswith(".pth") and name not in state.executed]
    if new:
        execute_pth(new)


def execute_pth(names):
    """Executes .pth files, as Python does at start."""
    site = load("site")
    for name in names:
        state.executed.add(name)
        if site is not None and is_file("%s/%s" % (state.directory, name)):
            try:
                call_user(site.addpackage, state.directory, name, None)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                write_note("%s: %s" % (name, type(error).__name__))


def is_file(path):
    """Whether a path leads to a regular file: reading another may never end."""
    try:
        return posix.stat(path).st_mode & 0o170000 == 0o100000
    except OSError:
        return False


def installed():
    """The distributions in the directory, and when each was installed."""
    found = {}
    try:
        for name in posix.listdir(state.directory):
            if name.endswith(".dist-info"):
                found[name] = posix.stat(state.directory + "/" + name).st_mtime_ns
    except (OSError, ValueError):
        pass  # There is none, or one is being removed.
    return found


def note_shadowed(before):
    """Says which modules are not those that are installed now."""
    for name, changed_ns in sorted(installed().items()):
        if before.get(name) != changed_ns:
            for module in sorted(modules_of(name) & sys.modules.keys()):
                write_note(SHADOWED % module)


def modules_of(distribution):
    """The top-level modules of a distribution: what pip wrote into its RECORD (PEP 627)."""
    names: set[str] = set()
    try:
        path = "%s/%s/RECORD" % (state.directory, distribution)
        if not is_file(path):
            return names
        with load("io").open(path, encoding="utf-8", errors="replace") as record:
            for line in record.read(RECORD_MAX_CHARS).splitlines():
                top, slash, rest = line.partition(",")[0].strip('"').partition("/")
                if slash and (rest == "__init__.py" or top.isidentifier()):
                    names.add(top)
                elif not slash and top.endswith((".py", ".so")):
                    names.add(top.partition(".")[0])
    except OSError:
        pass
    return names
