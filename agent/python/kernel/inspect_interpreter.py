"""Finds the directories that a Python interpreter reads, and compiles the kernel with it.

agent/src/inspect.rs runs this as `python -s -c SCRIPT`, outside of any session, with the parts
of the kernel on standard input as a JSON object: name -> source. The last line of output is
MARKER and a JSON object, whatever site customisation printed before: {executable, version,
prefixes, program}, or {error} if the interpreter can not run the kernel.

Must parse under any Python, so that it can refuse an old one with a reason.
"""

import sys

MARKER = "vivarium-inspect:"


def main():
    import base64
    import json
    import marshal
    import os

    if sys.version_info < (3, 9) or sys.implementation.name != "cpython":
        version = ".".join(str(part) for part in sys.version_info[:3])
        name = getattr(getattr(sys, "implementation", None), "name", "python")
        needed = "the kernel needs CPython 3.9 or later, and this is %s %s"
        return {"error": needed % (name, version)}
    parts = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    compiled = {}
    for name, source in parts.items():
        # Without docstrings and asserts. guard.py knows kernel code by this file name.
        code = compile(source, "<vivarium/%s.py>" % name, "exec", dont_inherit=True, optimize=2)
        compiled[name] = marshal.dumps(code)
    return {
        "executable": sys.executable,
        "version": ".".join(str(part) for part in sys.version_info[:3]),
        "prefixes": prefixes(os.path),
        "program": base64.b64encode(marshal.dumps(compiled)).decode("ascii"),
    }


def prefixes(path):
    """The existing directories that Python reads, both as named and as resolved, each once."""
    named = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    named += [entry for entry in sys.path if path.isabs(entry)]
    found = []  # type: list
    for directory in named:
        for form in (path.normpath(directory), path.realpath(directory)):
            inside = any((form + "/").startswith(known.rstrip("/") + "/") for known in found)
            if path.isdir(form) and not inside:
                found.append(form)
    return found


def write_answer():
    import json
    import os

    try:
        answer = main()
    except Exception as error:
        answer = {"error": "%s: %s" % (type(error).__name__, error)}
    sys.stdout.flush()
    data = ("\n" + MARKER + json.dumps(answer) + "\n").encode("ascii")
    while data:
        data = data[os.write(1, data) :]
    # No exit handler may write after the answer.
    os._exit(0)


write_answer()
