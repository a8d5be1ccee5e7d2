"""Changes certain modules as user code imports them, and stands in for IPython and `vivarium`.

A finder at the front of `sys.meta_path` waits for the modules it knows, lets the other finders find
them, and runs a hook on each once it is executed; each hook gives its reason. Where IPython is not
installed, the finder provides modules with what code written for notebooks imports (notebook.py).

Must not import any of these modules itself, must not make an import fail that works without it, and
must leave no trace: an imported module has its own loader and spec.
"""

import sys

import source_cache
from guard import Any, builtins, call_for_user, interruptible, update_wrapper

ModuleSpec = type(sys.__spec__)


def on_inspect(module):
    """inspect.getsource of a class asks for its module's __file__, which __main__ does not have:
    answers with the file name of the class's functions."""
    original = module.getfile

    def getfile(object):
        if isinstance(object, type) and object.__module__ == "__main__":
            for member in vars(object).values():
                function = getattr(member, "__func__", None) or getattr(member, "fget", member)
                name = getattr(getattr(function, "__code__", None), "co_filename", None)
                if name in source_cache.sources:
                    return name
        return original(object)

    module.getfile = update_wrapper(getfile, original)


def on_threading(module):
    """Before 3.13, C code prints a thread's traceback and looks for its source in files."""
    if sys.version_info >= (3, 13):
        return
    original = module.excepthook

    def excepthook(args):
        if args.exc_type is SystemExit or sys.stderr is None:
            original(args)
            return
        import traceback

        name = args.thread.name if args.thread is not None else module.get_ident()
        lines = traceback.format_exception(args.exc_type, args.exc_value, args.exc_traceback)
        sys.stderr.write("Exception in thread %s:\n%s" % (name, "".join(lines)))
        sys.stderr.flush()

    module.excepthook = interruptible(excepthook)


def on_multiprocessing(module):
    """Since 3.14 processes come from a fork server, which lacks the functions of a __main__ that
    is no file. A fork, the default until then, has them."""
    if sys.version_info >= (3, 14):
        module._default_context._default_context = module._concrete_contexts["fork"]


def on_watchdog(module):
    """A session has no inotify (ENOSYS), but watchdog polls only if libc lacks it too."""
    from watchdog.observers.polling import PollingObserver

    module.Observer = PollingObserver


def hook_in(part, function):
    """A hook that loads the part which has it."""

    def hook(module):
        getattr(__import__(part), function)(module)

    return hook


def populate_vivarium(module):
    """What code can ask of us."""
    for part in ("on_resume", "tool_module", "policy_errors"):
        __import__(part).populate(module)


HOOKS = {
    "linecache": source_cache.on_linecache,
    "inspect": on_inspect,
    "threading": on_threading,
    "multiprocessing.context": on_multiprocessing,
    "watchdog.observers": on_watchdog,
    "matplotlib.figure": hook_in("matplotlib_hooks", "on_figure"),
    "matplotlib.pyplot": hook_in("matplotlib_hooks", "on_pyplot"),
    "matplotlib.animation": hook_in("animations", "on_animation"),
    "PIL.Image": hook_in("show_hooks", "on_pil"),
    "plotly.io._renderers": hook_in("show_hooks", "on_plotly"),
    # These have `display` and its kin: the first since version 7.23, the second before.
    "IPython.core.display_functions": hook_in("notebook", "on_ipython"),
    "IPython.core.display": hook_in("notebook", "on_ipython"),
    "IPython.core.getipython": hook_in("notebook", "on_ipython"),
    # The client, if that is installed.
    "vivarium": populate_vivarium,
}

# The modules that are made where there are none, and whether each is a package: those that stand in
# for IPython, and what code can ask of us.
STAND_INS = {
    "vivarium": False,
    "IPython": True,
    "IPython.core": True,
    "IPython.core.display": False,
    "IPython.core.display_functions": False,
    "IPython.core.getipython": False,
    "IPython.core.pylabtools": False,
    "IPython.display": False,
}


class State:
    started = False


state = State()


class Finder:
    """Finds only the modules that are made here; runs the hooks of others."""

    @interruptible
    def find_spec(self, name, path=None, target=None):
        hook = HOOKS.get(name)
        if hook is None and name not in STAND_INS:
            return None
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target) if finder is not self else None
            if spec is not None:
                return spec if hook is None else with_hook(spec, hook)
        if name in STAND_INS:
            loader: Any = StandIn()
            return ModuleSpec(name, loader, is_package=STAND_INS[name])
        return None

    def __repr__(self):
        return "<vivarium: imports>"


class StandIn:
    def create_module(self, spec):
        return None

    @interruptible
    def exec_module(self, module):
        is_own = module.__name__ == "vivarium"
        populate = populate_vivarium if is_own else __import__("notebook").populate
        call_for_user(populate, module)


@interruptible
def with_hook(spec, hook):
    """The spec, with a loader that runs `hook` on the module once it is executed."""
    loader = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None or isinstance(loader, type):
        return spec

    def exec_module(module):
        del loader.exec_module
        execute(module)
        try:
            call_for_user(hook, module)
        except Exception:
            pass  # A version that the hook does not know works unchanged.

    loader.exec_module = exec_module
    return spec


@interruptible
def get_ipython():
    import shell

    return shell.SHELL


def start():
    """Runs the hooks of loaded modules and waits for the others. A template has done so already."""
    if state.started:
        return
    state.started = True
    # The second is for translated lines (syntax.py): user code does not assign that name.
    vars(builtins).update(get_ipython=get_ipython, __vivarium_shell__=get_ipython)
    for name, hook in HOOKS.items():
        if name in sys.modules:
            hook(sys.modules[name])
    sys.meta_path.insert(0, Finder())
