"""Finds the directories that a Python interpreter reads, and compiles the kernel with it.

agent/src/inspect.rs runs this as `python -s -c SCRIPT`, outside of any session, with the parts
of the kernel on standard input as a JSON object: name -> source. The last line of output is
MARKER and a JSON object, whatever site customisation printed before: {executable, version,
prefixes, program, hidden, missing}, or {error} if the interpreter can not run the kernel. Arguments
are names of distributions: `hidden` has the paths of their files, `missing` the names of those that
are not installed, or of which nothing tells the files.

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
    """The paths of these distributions' files, wherever sessions could read them."""
    wanted = {normalized(name) for name in names}
    paths = set()  # type: set
    present = set()  # type: set
    untold = set()  # type: set
    tops = set()  # type: set
    found = []
    for directory in package_directories(os.path) if names else ():
        entries = [(entry, distribution_of(entry)) for entry in os.listdir(directory)]
        found.append((directory, entries))
        for entry, name in entries:
            if name in wanted:
                tops.update(tops_of(os, directory, entry))
    for directory, entries in found:
        own = set()  # type: set
        for entry, name in entries:
            if name in wanted:
                files = files_of(os, directory, entry)
                is_told = len(files) > 1 or entry.endswith(".egg-link")
                (present if is_told else untold).add(name)
                own.update(files)
        # Debian has what depends on the version of Python in a directory without metadata.
        apart = named(os, directory, tops) if directory.endswith("-packages") else set()
        firsts = {file[0] for file in own | apart}
        others = set()  # type: set
        for entry, name in entries:
            if firsts and name and name not in wanted:
                others.update(it for it in files_of(os, directory, entry) if it[0] in firsts)
        own.update(apart - {file[:1] for file in others})
        paths.update(cover(os, directory, own, others))
    missing = [name for name in names if normalized(name) not in present - untold]
    return {"hidden": sorted(filter(os.path.lexists, paths)), "missing": missing}


def package_directories(path):
    """Those of the path, and those that code can add to it, as an environment's base has them. Both
    as named and as resolved, as sessions are shown both."""
    import glob

    found = [entry for entry in sys.path if path.isdir(entry)]
    # The mounts layer shows /usr to every session.
    for prefix in (*own_prefixes(), "/usr", "/usr/local"):
        found += glob.glob(glob.escape(prefix) + "/lib*/python3*/*-packages")
    forms = [path.normpath(directory) for directory in found if path.isabs(directory)]
    return sorted({*forms, *map(path.realpath, found)})


def own_prefixes():
    return [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]


def distribution_of(entry):
    """The normalized name of the distribution that has this metadata: NAME-VERSION.dist-info."""
    stem, _, kind = entry.rpartition(".")
    if kind in ("dist-info", "egg-info", "egg-link"):
        return normalized(stem.partition("-")[0])
    return None


def normalized(name):
    """As PEP 503 compares names."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))


def files_of(os, directory, entry):
    """The metadata and what it lists or names, as the parts of paths from this directory."""
    listed = listed_files(os, directory, entry)
    return {(entry,), *listed, *named(os, directory, tops_of(os, directory, entry))}


def listed_files(os, directory, entry):
    import csv

    found = set()  # type: set
    for row in csv.reader(lines_of(os.path.join(directory, entry, "RECORD"))):
        if row and row[0]:
            file = row[0]
            if file.startswith("/") or ".." in file:
                file = os.path.relpath(os.path.join(directory, file), directory)
            found.add(tuple(file.split("/")))
    return found


def tops_of(os, directory, entry):
    """The packages and modules of a distribution that lists no files."""
    if entry.endswith(".egg-link") or listed_files(os, directory, entry) - {(entry,)}:
        return []
    tops = lines_of(os.path.join(directory, entry, "top_level.txt"))
    return tops or [distribution_of(entry).replace("-", "_")]


def named(os, directory, tops):
    """Packages, modules of any kind, and the libraries beside them."""
    entries = os.listdir(directory) if tops else ()
    return {(it,) for it in entries if not distribution_of(it) and it.partition(".")[0] in tops}


def cover(os, directory, own, others):
    """The outermost directories that only this distribution has files in, and its files in those
    that are shared."""
    join = os.path.join
    shared = {file[:end] for file in others for end in range(1, len(file))}
    # Who lists no files has what it names whole.
    shared.update(others)
    found = set()
    for file in own:
        if file[0] == "..":
            found.update(outside(os.path, join(directory, *file)))
            continue
        ends = (file[:end] for end in range(1, len(file)))
        outer = next((end for end in ends if end not in shared and end[-1] != "__pycache__"), file)
        found.add(join(directory, *outer))
        if outer == file and file[-1].endswith(".py"):
            cache = join(directory, *file[:-1], "__pycache__")
            stem = file[-1][:-2]
            if os.path.isdir(cache):
                found.update(
                    join(cache, name) for name in os.listdir(cache) if name.startswith(stem)
                )
        if len(file) == 1 and file[0].endswith(".pth"):
            for line in lines_of(join(directory, file[0])):
                found.update(source_tree(os, line.strip()))
    return found


def outside(path, file):
    """A program, a library or data that is not below the directory for packages."""
    file = path.normpath(file)
    prefixes = own_prefixes() + [path.realpath(prefix) for prefix in own_prefixes()]
    within = any(file.startswith(prefix.rstrip("/") + "/") for prefix in prefixes)
    return {file} if within and not holds_interpreter(path, file) else set()


def source_tree(os, directory):
    """What lies in a directory that only a distribution's path file makes one for packages."""
    if not os.path.isabs(directory) or not os.path.isdir(directory):
        return set()
    if directory.rstrip("/").endswith("-packages"):
        return set()  # Another environment's, which has distributions of its own.
    found = set()
    for name in os.listdir(directory):
        entry = os.path.join(directory, name)
        if not holds_interpreter(os.path, entry):
            found.add(entry)
    return found


def holds_interpreter(path, file):
    needed = [sys.executable, *own_prefixes()]
    needed += [path.realpath(each) for each in needed]
    return any((each + "/").startswith(file + "/") for each in needed)


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
