"""Tells tenant code from that of libraries and of the kernel.

Tenant code is what executions were compiled from, modules outside of the interpreter's directories,
and what either has compiled itself. By file names, which code can choose: this helps code that
means well, and is no wall.
"""

import packages
from guard import FILE_PREFIX, SAFE_PATH, STDLIB, interruptible, modules
from source_cache import is_of_execution

IMPORT_SYSTEM = "<frozen importlib"
interruptible(is_of_execution)
INSTALLED = ("/site-packages/", "/dist-packages/")


@interruptible
def is_tenants(frame):
    """Whether this frame runs tenant code."""
    while frame is not None:
        name = frame.f_code.co_filename
        if is_of_execution(name):
            return True
        if name.startswith((FILE_PREFIX, "<frozen ")):
            return False
        if name.startswith("<"):
            # Compiled by code: it is of the module that it runs in, or else of who calls it.
            module = frame.f_globals.get("__name__")
            name = file_of(module)
            if module == "__main__":
                return True
        if name:
            return not is_librarys(name)
        frame = frame.f_back
    return False


@interruptible
def file_of(module):
    file = getattr(modules.get(module), "__file__", None) if type(module) is str else None
    return file if type(file) is str else ""


@interruptible
def is_librarys(name):
    """Whether a file is one of the interpreter's, or of an installed package."""
    directories = [*SAFE_PATH, packages.state.directory]
    return (
        name.startswith(STDLIB)
        or any(part in name for part in INSTALLED)
        or any(entry and name.startswith(entry + "/") for entry in directories)
    )


@interruptible
def importer(frame):
    """The innermost frame that is not the import system's."""
    while frame is not None and is_import_systems(frame):
        frame = frame.f_back
    return frame


@interruptible
def is_import_systems(frame):
    name = frame.f_code.co_filename
    return name.startswith(IMPORT_SYSTEM) or name == STDLIB + "importlib/__init__.py"
