"""Modules that this runtime does not have are refused by their names, with what has them."""

import sys

from refusals import ELSEWHERE

# Modules in C that WebAssembly has no place for, and libraries that tenant code often asks for.
MODULES = {
    "_bz2",
    "_lzma",
    "_zstd",
    "_dbm",
    "_gdbm",
    "_ctypes",
    "_multiprocessing",
    "_posixsubprocess",
    "_ssl",
    "fcntl",
    "mmap",
    "pwd",
    "grp",
    "resource",
    "termios",
    "syslog",
    "_curses",
    "readline",
    "_tkinter",
    "ctypes",
    "multiprocessing",
    "ssl",
    "curses",
    "tkinter",
    "ensurepip",
    "venv",
    "numpy",
    "pandas",
    "matplotlib",
    "scipy",
    "sklearn",
    "PIL",
    "seaborn",
    "plotly",
    "altair",
    "networkx",
    "sympy",
    "torch",
    "tensorflow",
    "cv2",
    "requests",
    "httpx",
    "aiohttp",
    "openpyxl",
    "pyarrow",
    "polars",
    "statsmodels",
    "bs4",
    "lxml",
    "yaml",
    "pydantic",
}


class Finder:
    """The last finder."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in MODULES:
            raise ModuleNotFoundError(ELSEWHERE % (name + " is not available"), name=name)


def start():
    sys.meta_path.append(Finder)
