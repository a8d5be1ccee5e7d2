"""Keeps the sources of past executions, for tools that show source lines.

traceback, inspect, warnings and pdb all ask linecache, but importing that at start-up takes
milliseconds. So import_hooks.py waits until something imports it and fills its cache then; from
there on each new source goes in at once. Entries without a modification time survive
`linecache.checkcache`; doctest and IPython rely on that too.

Executions may share a file name (script_name.py): their lines are then those of the last one.

Must not hold sources without bound.
"""

from guard import Any

SOURCES_MAX = 1000
SOURCES_MAX_CHARS = 16 << 20
# A longer source is not kept: its tracebacks have no source lines.
SOURCE_MAX_CHARS = 4 << 20

# Execution -> file name and source.
kept: dict = {}
# File name -> source of the last execution of that name.
sources: dict = {}


class State:
    chars = 0
    linecache: Any = None
    # The file name of the last execution, whose source may be too long to be kept.
    name = ""


state = State()


def add(number, name, source):
    """Adds a source. Returns the numbers of the executions whose sources it evicted for that."""
    state.name = name
    if len(source) > SOURCE_MAX_CHARS:
        sources.pop(name, None)
        update_linecache((), [name])
        return ()
    kept[number] = name, source
    sources[name] = source
    state.chars += len(source)
    evicted, stale = [], [name]
    while len(kept) > SOURCES_MAX or state.chars > SOURCES_MAX_CHARS:
        evicted.append(next(iter(kept)))
        old_name, old_source = kept.pop(evicted[-1])
        state.chars -= len(old_source)
        if sources.get(old_name) is old_source:
            del sources[old_name]
            stale.append(old_name)
    update_linecache([name], stale)
    return evicted


def is_of_execution(name):
    """Whether this is the file name of an execution's code."""
    return name.startswith("<execution ") or name in sources or name == state.name


def lines_of(source):
    """The lines as the compiler counts them, each with a line end."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line + "\n" for line in lines]


def line(name, lineno):
    """One line of an execution's source, or None."""
    found = lines_of(sources.get(name, ""))[lineno - 1 : lineno] if name in sources else None
    return found[0] if found else None


def linecache_entry(name, source):
    """An entry of linecache's cache: size, modification time, lines, full name."""
    return len(source), None, lines_of(source), name


def update_linecache(names=sources, stale=()):
    """Removes stale entries from linecache's cache, and adds these sources.

    User code may have replaced the cache with something else: it stays without them then.
    """
    if state.linecache is None:
        return
    try:
        cache = state.linecache.cache
        for name in stale:
            cache.pop(name, None)
        for name in names:
            if name not in cache:
                cache[name] = linecache_entry(name, sources[name])
    except BaseException:
        pass


def on_linecache(module):
    state.linecache = module
    update_linecache()
