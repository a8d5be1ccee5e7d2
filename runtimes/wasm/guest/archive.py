"""The standard library in memory: the guest sees no file of it."""

import importlib.machinery
import importlib.util
import marshal
import os
import sys
import zlib

# Where componentize-py has the library while the component is made, and where it seems to be in a session.
SOURCE, HOME = "/python", "/python/lib/python3.14"
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


class Loader:
    """Loads one module of the archive, as the loader of source files does."""

    def __init__(self, name):
        self.name = name

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(self.get_code(), vars(module))

    def get_code(self, name=None):
        return marshal.loads(modules[self.name][2])

    def get_source(self, name=None):
        return zlib.decompress(modules[self.name][3]).decode("utf-8")

    def get_filename(self, name=None):
        return modules[self.name][1]

    def is_package(self, name=None):
        return modules[self.name][0]


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
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


def start():
    """Reads the whole library."""
    for directory, folders, files in os.walk(SOURCE):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for file in sorted(files):
            if file.endswith(".py"):
                add(directory, file)
    # After those of built-in and frozen modules, before that of files.
    sys.meta_path.insert(2, Finder)


def add(directory, file):
    path = directory + "/" + file
    with open(path, "rb") as opened:
        data = opened.read()
    inner = path[len(SOURCE) + 1 : -len(".py")]
    is_package = inner.endswith("/__init__")
    name = (inner.removesuffix("/__init__") if is_package else inner).replace("/", ".")
    shown = "%s/%s" % (HOME, path[len(SOURCE) + 1 :])
    try:
        code = compile(data, shown, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return  # A file that is there to be refused by tests.
    source = zlib.compress(importlib.util.decode_source(data).encode())
    modules[name] = (is_package, shown, marshal.dumps(code), source)


def read_parts(directory):
    """The parts of the kernel program: name -> marshalled code, as inspect_interpreter.py makes them."""
    parts = {}
    for file in sorted(os.listdir(directory)):
        name = file.removesuffix(".py")
        with open("%s/%s" % (directory, file)) as opened:
            source = opened.read()
        code = compile(source, "<vivarium/%s.py>" % name, "exec", dont_inherit=True, optimize=2)
        parts[name] = marshal.dumps(code)
    return parts


def finish():
    """Leaves nothing that leads to files of the machine that makes the component."""
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None) or ""
        if name in modules and path.startswith(SOURCE):
            module.__file__ = modules[name][1]
            module.__loader__ = module.__spec__.loader = Loader(name)
            module.__spec__.origin = modules[name][1]
            if modules[name][0]:
                module.__path__[:] = [modules[name][1].rpartition("/")[0]]
    sys.path[:] = [HOME]
    sys.path_importer_cache.clear()
    sys.argv = [""]
    sys.executable = ""
