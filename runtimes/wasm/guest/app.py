"""What the component is made of: CPython, the kernel program and the standard library.

All that is at module level runs once, as the component is made. Its memory is then a part of the
component.
"""

import gc

import archive
import immortal
import inspection
import loop
import missing
import refusals
import stand_ins
import wit_world

for module in (archive, missing):
    archive.as_frozen(module, "importlib." + module.__name__)
for module in (loop, refusals, stand_ins, wit_world):
    archive.as_frozen(module, "wasm")
archive.start()
stand_ins.start()
missing.start()
refusals.refuse_threads()

# What a session most likely imports, ready in each.
for name in [
    "argparse",
    "asyncio",
    "base64",
    "bisect",
    "calendar",
    "cmath",
    "codeop",
    "collections",
    "contextlib",
    "contextvars",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "getpass",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "html",
    "importlib",
    "inspect",
    "io",
    "itertools",
    "json",
    "linecache",
    "logging",
    "math",
    "numbers",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "platform",
    "pprint",
    "queue",
    "random",
    "re",
    "secrets",
    "selectors",
    "shlex",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "sys",
    "tempfile",
    "textwrap",
    "threading",
    "time",
    "timeit",
    "tokenize",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "unittest",
    "urllib.parse",
    "urllib.request",
    "uuid",
    "warnings",
    "weakref",
    "xml.etree.ElementTree",
    "zipfile",
    "zlib",
    "zoneinfo",
]:
    __import__(name)

loop.start()
refusals.refuse_processes()
parts = archive.read_parts("/0/kernel")
stand_ins.compile_once()
archive.finish()
kernel = stand_ins.load_kernel(parts)


class WitWorld(wit_world.WitWorld):
    def run(self):
        import json
        import random

        stand_ins.prepare()
        # In a template it returns in each fork: what was made before is in every session.
        settings = wit_world.settings()
        random.seed()
        stand_ins.enter(json.loads(settings))
        kernel.main()
        return 0

    def inspect(self):
        import json

        return json.dumps(inspection.inspect(json.loads(wit_world.settings())["workdir"]))


# The collector would write to each object that it visits.
living = immortal.living()
gc.freeze()
