"""Runs the kernel's parts outside of `sys.modules`, and starts the kernel or a template.

bootstrap.py or template_bootstrap.py, which is `python -c`, runs this with `PARTS`, a dictionary
of the files of this directory: name -> marshalled code, compiled by this very interpreter; with
`MAIN`, the part to start; and with a copy of the interpreter's builtins as `__builtins__`.

All parts share that copy, so a builtin that tenant code patches does not reach them. It has an
`__import__` of its own, so parts import each other by plain `import` and yet none is ever in
`sys.modules`, where tenant code would find it by accident or break it with a `clear()`.

Must not import anything the interpreter has not loaded by itself: see kernel.py.
"""

import marshal

ModuleType = type(marshal)
python_import = __import__
loaded = {}


def part_import(name, globals=None, locals=None, fromlist=(), level=0):
    """`__import__` as the parts see it: another part, or else what Python finds."""
    if name not in PARTS:
        return python_import(name, globals, locals, fromlist, level)
    if name not in loaded:
        part = loaded[name] = ModuleType(name)
        vars(part)["__builtins__"] = __builtins__
        exec(marshal.loads(PARTS[name]), vars(part))
    return loaded[name]


__builtins__["__import__"] = part_import
part_import(MAIN).main()
