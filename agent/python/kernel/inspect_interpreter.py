"""Finds the directories that a Python interpreter reads, and compiles the kernel with it.

agent/src/inspect.rs runs this as `python -s -c SCRIPT`, outside of any session, with the parts
of the kernel on standard input as a JSON object: name -> source. The last line of output is
MARKER and a JSON object, whatever site customisation printed before: {executable, version,
prefixes, program, hidden, missing}, or {error} if the interpreter can not run the kernel. Arguments
are names of distributions: `hidden` has the paths of their files, `missing` the names of those that
are not installed.

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
        **hidden(os, sys.argv[1:]),
    }


def hidden(os, names):
    """The paths that these distributions have in the directories for packages."""
    paths = set()  # type: set
    missing = []
    directories = [entry for entry in map(os.path.realpath, sys.path) if os.path.isdir(entry)]
    for name in names:
        known = len(paths)
        for directory in directories:
            for entry in os.listdir(directory):
                if is_metadata_of(entry, name):
                    paths.update(paths_of(os.path, directory, entry))
        if len(paths) == known:
            missing.append(name)
    return {"hidden": sorted(paths), "missing": missing}


def is_metadata_of(entry, name):
    """Whether a directory or file has the metadata of a distribution: NAME-VERSION.dist-info."""
    stem, _, kind = entry.rpartition(".")
    if kind not in ("dist-info", "egg-info"):
        return False
    return normalized(stem.partition("-")[0]) == normalized(name)


def normalized(name):
    """As PEP 503 compares names."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))


def paths_of(path, directory, entry):
    """The metadata's own path, and those of the packages and modules that it lists."""
    metadata = path.join(directory, entry)
    found = {metadata}
    files = lines_of(path.join(metadata, "RECORD"))
    files = [line.partition(",")[0].strip('"').split("/") for line in files]
    packages = {tuple(file[:-1]) for file in files if file[-1] == "__init__.py"}
    for file in files:
        if file[0] in ("", "..") or file[0] == entry:
            continue  # Scripts and the like, which are of no use without the rest.
        # The outermost package: what is around it may be shared with other distributions.
        ends = range(1, len(file))
        outer = next((file[:end] for end in ends if tuple(file[:end]) in packages), file)
        found.add(path.join(directory, *outer))
    for name in lines_of(path.join(metadata, "top_level.txt")) if not files else ():
        for form in (name, name + ".py"):
            if name and path.lexists(path.join(directory, form)):
                found.add(path.join(directory, form))
    return found


def lines_of(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []


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
