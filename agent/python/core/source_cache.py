"""The sources of past executions, for whoever shows source lines.

traceback, inspect, warnings and pdb all ask linecache, but importing that at start-up costs
milliseconds. So a finder at the front of `sys.meta_path` waits for its import, whoever asks
for it (import_hooks.py), and then fills its cache; from there on each new source goes in at once.
Entries without a modification time survive `linecache.checkcache`, which is how doctest and
IPython do it too.

Must not hold sources without bound.
"""

SOURCES_MAX = 1000
SOURCES_MAX_CHARS = 16 << 20
# A longer one is not kept, and its tracebacks have no source lines.
SOURCE_MAX_CHARS = 4 << 20

sources = {}


class State:
    """What changes while the kernel lives."""

    chars = 0
    linecache = None


def keep(name, source):
    """Keeps a source, and forgets the oldest beyond the bounds: gives the executions' numbers."""
    if len(source) > SOURCE_MAX_CHARS:
        return ()
    sources[name] = source
    State.chars += len(source)
    forgotten = []
    while len(sources) > SOURCES_MAX or State.chars > SOURCES_MAX_CHARS:
        forgotten.append(next(iter(sources)))
        State.chars -= len(sources.pop(forgotten[-1]))
    refill([name], forgotten)
    return [int(name[len("<execution ") : -1]) for name in forgotten] if forgotten else ()


def lines_of(source):
    """The lines as the compiler counts them, each with its end."""
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line + "\n" for line in lines]


def line(name, lineno):
    """One line of an execution's source, or None."""
    found = lines_of(sources.get(name, ""))[lineno - 1 : lineno] if name in sources else None
    return found[0] if found else None


def entry(name, source):
    """An entry of linecache's cache: size, modification time, lines, full name."""
    return len(source), None, lines_of(source), name


def refill(names=sources, forgotten=()):
    """Makes linecache's cache hold these sources and no longer those.

    The code may have cleared the cache, or made it something else: then so be it.
    """
    if State.linecache is None:
        return
    try:
        cache = State.linecache.cache
        for name in forgotten:
            cache.pop(name, None)
        for name in names:
            if name not in cache:
                cache[name] = entry(name, sources[name])
    except BaseException:
        pass


def on_linecache(module):
    State.linecache = module
    refill()
