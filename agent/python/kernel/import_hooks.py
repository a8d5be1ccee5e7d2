"""What happens as the code imports certain modules: they are changed, or IPython is stood in for.

A finder at the front of `sys.meta_path` waits for the modules it knows, has others find them, and
changes them once they are executed, each for a reason given with the change. Where nobody finds
IPython, it gives one that has what code written for notebooks imports (notebook.py).

Must not import any of them itself, must not let an import fail that would work without it, and
must not be noticed: a module comes out of its import with its own loader and spec.
"""

import sys

import source_cache
from guard import entered, imitate, interruptible

ModuleSpec = type(sys.__spec__)


def on_inspect(module):
    """inspect.getsource of a class asks for its module's __file__, which __main__ has not: let
    it ask the class's functions."""
    original = module.getfile

    def getfile(object):
        if isinstance(object, type) and object.__module__ == "__main__":
            for member in vars(object).values():
                function = getattr(member, "__func__", None) or getattr(member, "fget", member)
                code = getattr(function, "__code__", None)
                if getattr(code, "co_filename", None) in source_cache.sources:
                    return code.co_filename
        return original(object)

    module.getfile = imitate(getfile, original)


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

    module.excepthook = interruptible(excepthook)


def on_multiprocessing(module):
    """Since 3.14 processes come from a fork server, where functions of a __main__ that is no
    file do not exist. Fork, the default before, has them."""
    if sys.version_info >= (3, 14):
        module._default_context._default_context = module._concrete_contexts["fork"]


def on_watchdog(module):
    """A session has no inotify (ENOSYS), and watchdog polls only where its libc has none either."""
    from watchdog.observers.polling import PollingObserver

    module.Observer = PollingObserver


def by(part, function):
    """A hook in a part that is loaded for it."""

    def hook(module):
        getattr(__import__(part), function)(module)

    return hook


HOOKS = {
    "linecache": source_cache.on_linecache,
    "inspect": on_inspect,
    "threading": on_threading,
    "multiprocessing.context": on_multiprocessing,
    "watchdog.observers": on_watchdog,
    "matplotlib.figure": by("matplotlib_hooks", "on_figure"),
    "matplotlib.pyplot": by("matplotlib_hooks", "on_pyplot"),
    "matplotlib.animation": by("animations", "on_animation"),
    "PIL.Image": by("show_hooks", "on_pil"),
    "plotly.io._renderers": by("show_hooks", "on_plotly"),
    # Where `display` and its kin are, since version 7.23 and before.
    "IPython.core.display_functions": by("notebook", "on_ipython"),
    "IPython.core.display": by("notebook", "on_ipython"),
}

# What stands in for IPython: packages, and modules.
STAND_INS = {
    "IPython": True,
    "IPython.core": True,
    "IPython.core.display": False,
    "IPython.core.display_functions": False,
    "IPython.display": False,
}


class State:
    """Whether it has begun."""

    started = False


class Finder:
    """Finds nothing by itself but what stands in for IPython."""

    @interruptible
    def find_spec(self, name, path=None, target=None):
        hook = HOOKS.get(name)
        if hook is None and name not in STAND_INS:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                return spec if hook is None else hooked(spec, hook)
        if name in STAND_INS:
            return ModuleSpec(name, StandIn(), is_package=STAND_INS[name])
        return None

    def __repr__(self):
        return "<vivarium: imports>"


class StandIn:
    """The loader of what stands in for IPython."""

    def create_module(self, spec):
        return None

    @interruptible
    def exec_module(self, module):
        import notebook

        entered(notebook.fill, module)


@interruptible
def hooked(spec, hook):
    """The spec, whose loader will run `hook` on the module once it is executed."""
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None or isinstance(loader, type):
        return spec

    def exec_module(module):
        del loader.exec_module
        execute(module)
        try:
            entered(hook, module)
        except Exception:
            pass  # A version that is not as expected works as it is.

    loader.exec_module = exec_module
    return spec


def start():
    """Takes care of what is loaded already, and of what will be. A template has done so."""
    if State.started:
        return
    State.started = True
    for name, hook in HOOKS.items():
        if name in sys.modules:
            hook(sys.modules[name])
    sys.meta_path.insert(0, Finder())
