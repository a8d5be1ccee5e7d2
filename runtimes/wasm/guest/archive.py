"""The standard library in memory: the guest sees no file of it."""

import importlib.machinery
import importlib.util
import marshal
import os
import sys
import zlib

# Where componentize-py has the library while the component is made, and where it seems to be in a
# session.
HOME = "/python"
# Not of use in a session.
LEFT_OUT = {
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "site-packages",
    "test",
    "__pycache__",
    "venv",
}
LEFT_OUT |= {"config-3.14-wasm32-wasi", "lib2to3", "curses", "pydoc_data"}

# Name -> whether it is a package, its path, its marshalled code and its compressed source.
modules: dict = {}


# The kernel changes these as they are imported (import_hooks.py).
HOOKED = {"linecache", "inspect", "threading"}
# The modules that are ready: in the memory that every session begins with.
ready: dict = {}
# What each of them needs.
needs: dict = {}
# Those that Python has loaded when it starts, and that no file of the user's can replace.
STARTED = {
    "sys",
    "builtins",
    "_frozen_importlib",
    "_imp",
    "_thread",
    "_warnings",
    "_weakref",
    "_io",
    "marshal",
    "posix",
    "_frozen_importlib_external",
    "time",
    "zipimport",
    "_codecs",
    "codecs",
    "encodings.aliases",
    "encodings",
    "encodings.utf_8",
    "__main__",
    "_abc",
    "abc",
    "_stat",
    "stat",
    "_collections_abc",
    "errno",
    "genericpath",
    "posixpath",
    "os.path",
    "os",
    "_sitebuiltins",
    "site",
}


class Loader:
    """Loads one module of the archive, as the loader of source files does."""

    def __init__(self, name):
        self.name = name

    def create_module(self, spec):
        module = ready.get(self.name)
        if module is not None:
            module.__loader__ = self
        return module

    def exec_module(self, module):
        if ready.pop(self.name, None) is None:
            exec(self.get_code(), vars(module))
            return
        # What the module has imported is loaded with it.
        for name in needs[self.name]:
            if name in HOOKED:
                import_from_library(name)
                continue
            found = ready.pop(name, None)
            if found is not None:
                sys.modules.setdefault(name, found)

    def get_code(self, name=None):
        return marshal.loads(modules[self.name][2])

    def get_source(self, name=None):
        return zlib.decompress(modules[self.name][3]).decode("utf-8")

    def get_filename(self, name=None):
        return modules[self.name][1]

    def is_package(self, name=None):
        return modules[self.name][0]


def import_from_library(name):
    users_path, sys.path = sys.path, [HOME]
    try:
        __import__(name)
    finally:
        sys.path = users_path


def needed_by(module):
    """The names of the ready modules that a module refers to, and that those do."""
    found, left = {}, [module]
    while left:
        for value in list(vars(left.pop()).values()):
            name = (
                value.__name__ if type(value) is type(sys) else getattr(value, "__module__", None)
            )
            other = ready.get(name) if type(name) is str else None
            if other is not None and name not in found:
                found[name] = other
                left.append(other)
    return found


class Entry:
    """Finds the modules of one directory of the library, as an entry of `sys.path`."""

    def __init__(self, directory):
        if directory != HOME and not directory.startswith(HOME + "/"):
            raise ImportError("it is not of the library", path=directory)
        self.package = directory[len(HOME) + 1 :].replace("/", ".")

    def find_spec(self, name, target=None):
        found = modules.get(name)
        if found is None:
            return None
        spec = importlib.machinery.ModuleSpec(
            name, Loader(name), origin=found[1], is_package=found[0]
        )
        spec.has_location = True
        if found[0]:
            spec.submodule_search_locations = [found[1].rpartition("/")[0]]
        return spec

    def invalidate_caches(self):
        pass

    def iter_modules(self, prefix=""):
        for name, found in modules.items():
            package, _, last = name.rpartition(".")
            if package == self.package:
                yield prefix + last, found[0]


def start():
    """Reads the whole library."""
    for directory, folders, files in os.walk(HOME):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for file in sorted(files):
            if file.endswith(".py"):
                add(directory, file)
    sys.path_hooks.insert(0, Entry)
    sys.path.insert(0, HOME)
    sys.path_importer_cache.clear()


def add(directory, file):
    path = directory + "/" + file
    with open(path, "rb") as opened:
        data = opened.read()
    inner = path[len(HOME) + 1 : -len(".py")]
    is_package = inner.endswith("/__init__")
    name = (inner.removesuffix("/__init__") if is_package else inner).replace("/", ".")
    try:
        code = compile(data, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return  # A file that is there to be refused by tests.
    source = zlib.compress(importlib.util.decode_source(data).encode())
    modules[name] = (is_package, path, marshal.dumps(code), source)


def read_parts(directory):
    """The parts of the kernel program: name -> marshalled code, as of inspect_interpreter.py."""
    parts = {}
    for file in sorted(os.listdir(directory)):
        name = file.removesuffix(".py")
        with open("%s/%s" % (directory, file)) as opened:
            source = opened.read()
        code = compile(source, "<vivarium/%s.py>" % name, "exec", dont_inherit=True, optimize=2)
        parts[name] = marshal.dumps(code)
    return parts


def as_frozen(module, name):
    """Gives the functions of a module a file name of a frozen one: they are no tenant's."""

    def renamed(code):
        constants = (renamed(it) if type(it) is type(code) else it for it in code.co_consts)
        return code.replace(co_filename="<frozen %s>" % name, co_consts=tuple(constants))

    for holder in [module, *(it for it in vars(module).values() if isinstance(it, type))]:
        for value in list(vars(holder).values()):
            function = getattr(value, "__func__", value)
            own = getattr(function, "__module__", None) == module.__name__
            if own and type(function) is type(as_frozen):
                function.__code__ = renamed(function.__code__)


def finish():
    """Leaves nothing that leads to files of the machine that makes the component."""
    os.__file__ = HOME + "/os.py"
    for name in [name for name in sys.modules if name in modules and name not in STARTED]:
        ready[name] = sys.modules.pop(name)
    needs.update((name, list(needed_by(module))) for name, module in ready.items())
    sys.path[:] = [HOME]
    sys.path_importer_cache.clear()
    sys.argv = [""]
    sys.executable = ""
