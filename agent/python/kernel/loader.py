"""Loads the kernel's parts outside of `sys.modules`, and starts the kernel or a template.

bootstrap.py (`python -c`) executes this with three globals: `PARTS`, the
other files as name -> marshalled code, compiled by this very interpreter; `MAIN`, the part to
start; and a copy of the interpreter's builtins as `__builtins__`.

All parts share that copy, so user code can not patch a builtin of theirs. The copy has an
`__import__` of its own: parts import each other by plain `import`, but none is ever in
`sys.modules`, where user code would find it by accident or break it with a `clear()`.

Must not import anything that the interpreter has not loaded by itself: see kernel.py.
"""

import marshal

ModuleType = type(marshal)
python_import = __import__
parts, main = globals()["PARTS"], globals()["MAIN"]
loaded: dict = {}


def part_import(name, globals=None, locals=None, fromlist=(), level=0):
    """`__import__` for parts: imports another part, or else what Python finds."""
    if name not in parts:
        return python_import(name, globals, locals, fromlist, level)
    if name not in loaded:
        part = ModuleType(name)
        vars(part)["__builtins__"] = __builtins__
        # User code may raise in this: a signal handler, an audit hook. The next import tries again.
        exec(marshal.loads(parts[name]), vars(part))
        loaded.setdefault(name, part)
    return loaded[name]


__builtins__["__import__"] = part_import
part_import(main).main()
