"""The sources of past executions, for whoever shows source lines.

traceback, inspect, warnings and pdb all ask linecache, but importing that at start-up costs
milliseconds. So a finder at the front of `sys.meta_path` waits for its import, whoever asks
for it, and then fills its cache; from there on each new source goes in at once. Entries
without a modification time survive `linecache.checkcache`, which is how doctest and IPython
do it too. The finder changes a few other modules in the same way, each for a reason given.

Must not hold sources without bound, and must not be noticed: a module comes out of its import
with its own loader and spec.
"""

import sys

SOURCES_MAX = 200
SOURCES_MAX_CHARS = 16 << 20
# A longer one is not kept, and its tracebacks have no source lines.
SOURCE_MAX_CHARS = 4 << 20

sources = {}


class State:
    """What changes while the kernel lives."""

    chars = 0
    linecache = None


def keep(name, source):
    """Keeps a source, and forgets the oldest ones beyond the bounds."""
    if len(source) > SOURCE_MAX_CHARS:
        return
    sources[name] = source
    State.chars += len(source)
    forgotten = []
    while len(sources) > SOURCES_MAX or State.chars > SOURCES_MAX_CHARS:
        forgotten.append(next(iter(sources)))
        State.chars -= len(sources.pop(forgotten[-1]))
    refill([name], forgotten)


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


def on_inspect(module):
    """inspect.getsource of a class asks for its module's __file__, which __main__ has not: let
    it ask the class's functions."""
    original = module.getfile

    def getfile(object):
        if isinstance(object, type) and object.__module__ == "__main__":
            for member in vars(object).values():
                function = getattr(member, "__func__", None) or getattr(member, "fget", member)
                code = getattr(function, "__code__", None)
                if getattr(code, "co_filename", None) in sources:
                    return code.co_filename
        return original(object)

    getfile.__doc__ = original.__doc__
    module.getfile = getfile


def on_threading(module):
    """Before 3.13 a thread's traceback is printed by C code that looks for sources in files."""
    if sys.version_info >= (3, 13):
        return
    original = module.excepthook

    def excepthook(args):
        if args.exc_type is SystemExit or sys.stderr is None:
            return original(args)
        import traceback

        name = args.thread.name if args.thread is not None else module.get_ident()
        kept = traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)
        sys.stderr.write("Exception in thread %s:\n%s" % (name, "".join(kept)))
        sys.stderr.flush()

    module.excepthook = excepthook


def on_multiprocessing(module):
    """Since 3.14 processes come from a fork server, where functions of a __main__ that is no
    file do not exist. Fork, the default before, has them."""
    if sys.version_info >= (3, 14):
        module._default_context._default_context = module._concrete_contexts["fork"]


HOOKS = {
    "linecache": on_linecache,
    "inspect": on_inspect,
    "threading": on_threading,
    "multiprocessing.context": on_multiprocessing,
}


class Finder:
    """Finds nothing by itself: has others find, and is told when the module is there."""

    def find_spec(self, name, path=None, target=None):
        hook = HOOKS.get(name)
        if hook is None:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                return hooked(spec, hook)
        return None

    def __repr__(self):
        return "<vivarium: source lines>"


def hooked(spec, hook):
    """The spec, whose loader will run `hook` on the module once it is executed."""
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None or isinstance(loader, type):
        return spec

    def exec_module(module):
        del loader.exec_module
        execute(module)
        hook(module)

    loader.exec_module = exec_module
    return spec


def start():
    """Takes care of what is loaded already, and of what will be."""
    for name, hook in HOOKS.items():
        if name in sys.modules:
            hook(sys.modules[name])
    sys.meta_path.insert(0, Finder())
