"""Completion of names, attributes, dictionary keys, modules to import, and paths.

Decides which of them to offer by the line up to the cursor alone.
"""

from budget import RenderingTimeout, call_timed
from classes import mro_of, namespace_of
from guard import Any, builtins, load, main_module, sys
from lookup import MISSING, ModuleType, attribute, dotted_name, kind_of, resolve, static_attribute

MATCHES_MAX = 500
MATCH_MAX_CHARS = 256
# Of a directory, or of all modules.
ENTRIES_MAX = 5000


def complete(source, cursor):
    """The completions at the cursor: {matches: [{text, type}], start, end}."""
    line = source[:cursor].rpartition("\n")[2]
    quote, start = open_string(line)
    if start == len(line) + 1:
        prefix, found = "", []
    elif quote:
        prefix = line[start:]
        key_of = line[: start - len(quote)].rstrip()
        if key_of.endswith("["):
            found = keys(resolve(dotted_name(key_of[:-1])), quote)
        else:
            prefix = prefix.rpartition("/")[2]
            found = paths(line[start : len(line) - len(prefix)])
    else:
        prefix, found = code_matches(line)
    matches = {}
    try:
        for text, kind in found:
            if text.startswith(prefix) and len(text) <= MATCH_MAX_CHARS and text not in matches:
                matches[text] = kind
            if len(matches) > ENTRIES_MAX:
                break
    except RenderingTimeout:
        pass  # Offers those that were found in time.
    # Private names come last, and only if the prefix asks for them.
    if not prefix.startswith("_"):
        matches = {text: kind for text, kind in matches.items() if not text.startswith("_")}
    ordered = sorted(matches, key=lambda text: (text.startswith("_"), text))[:MATCHES_MAX]
    return {
        "matches": [{"text": text, "type": matches[text]} for text in ordered],
        "start": cursor - len(prefix),
        "end": cursor,
    }


def open_string(code):
    """The quotes of the string that is open at the end of code, and where its content starts.

    No quotes if none is open. Inside a comment, the start is one past the end.
    """
    at, quote, start = 0, "", 0
    while at < len(code):
        character = code[at]
        if quote:
            if character == "\\":
                at += 1
            elif code.startswith(quote, at):
                at += len(quote) - 1
                quote = ""
        elif character == "#":
            at = code.find("\n", at)
            if at < 0:
                return "", len(code) + 1
        elif character in "'\"":
            quote = character * 3 if code.startswith(character * 3, at) else character
            at += len(quote) - 1
            start = at + 1
        at += 1
    return quote, start


def code_matches(line):
    """The name up to the cursor, and its completions."""
    words = line.split()
    dotted = dotted_name(line)
    before, dot, prefix = dotted.rpartition(".")
    if words[:1] == ["import"] or (words[:1] == ["from"] and "import" not in words):
        return prefix, modules(before)
    if words[:1] == ["from"] and not dot:
        return prefix, members_of_module(words[1])
    if line[: len(line) - len(dotted)].endswith(".") or dotted.startswith("."):
        return prefix, ()  # An attribute of an expression that is no name.
    if dot:
        return prefix, attributes(resolve(before))
    opened = line[: len(line) - len(prefix)].rstrip()
    if not prefix and opened.endswith("["):
        return prefix, keys(resolve(dotted_name(opened[:-1])), "")
    return prefix, visible_names()


def visible_names():
    for name, value in list(vars(main_module).items()):
        if type(name) is str:
            yield name, kind_of(value)
    for name in load("keyword").kwlist:
        yield name, "keyword"
    for name, value in list(vars(builtins).items()):
        yield name, kind_of(value)


def attributes(value):
    if value is MISSING:
        return
    try:
        names = call_timed(dir, value)
    except (KeyboardInterrupt, RenderingTimeout):
        raise
    except BaseException:
        names = sorted({name for kind in mro_of(type(value)) for name in namespace_of(kind)})
    for name in names:
        if type(name) is str:
            yield name, kind_of(static_attribute(value, name))


def keys(value, quote):
    """Keys of a dictionary, columns of a data frame or fields of an array, quoted if need be."""
    if isinstance(value, dict):
        found: Any = dict.keys(value)
    else:
        frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
        if isinstance(frame, type) and isinstance(value, frame):
            found = call_timed(getattr, value, "columns")
        else:
            dtype = attribute(value, "dtype")
            found = (attribute(dtype, "names") if dtype is not MISSING else ()) or ()
    for key in call_timed(list, found) if found is not MISSING else ():
        if (type(key) is str and quote not in key) or (not quote and type(key) in (str, int)):
            yield key if quote else repr(key), "key"


def paths(directory):
    """The entries of a directory, whose name ends in a slash or is empty: the workdir."""
    os = load("os")
    try:
        entries = call_timed(os.scandir, call_timed(os.path.expanduser, directory) or ".")
    except OSError:
        return
    with entries:
        for _, entry in zip(range(ENTRIES_MAX), entries):
            is_directory = entry.is_dir()
            yield entry.name + "/" * is_directory, "directory" if is_directory else "file"


def modules(package):
    """Modules that can be imported: of a package, or at the top level."""
    if not package:
        for name in sys.builtin_module_names:
            yield name, "module"
        places = sys.path
    else:
        for name in list(sys.modules):
            if type(name) is str and name.startswith(package + "."):
                yield name[len(package) + 1 :].partition(".")[0], "module"
        places = package_path(package)
    for place in list(places):
        for name in call_timed(module_names, place):
            yield name, "module"


def package_path(package):
    """The directories of a package's modules, found without importing the package."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return getattr(loaded, "__path__", ())
    if "." in package:
        top, _, rest = package.rpartition(".")
        return [place + "/" + rest for place in package_path(top)]
    spec = call_timed(load("importlib.machinery").PathFinder.find_spec, package)
    return getattr(spec, "submodule_search_locations", None) or ()


def module_names(place):
    """Modules and packages in a directory."""
    os = load("os")
    suffixes = load("importlib.machinery").all_suffixes()
    names = []
    try:
        with os.scandir(place or ".") as entries:
            for _, entry in zip(range(ENTRIES_MAX), entries):
                name = entry.name
                for suffix in suffixes:
                    if name.endswith(suffix):
                        names.append(name[: -len(suffix)])
                        break
                else:
                    names.append(name)
    except OSError:
        pass
    return [name for name in names if name.isidentifier()]


def members_of_module(name):
    """What can be imported from a module: its submodules, and its attributes if it is loaded."""
    module = sys.modules.get(name)
    if isinstance(module, ModuleType):
        yield from attributes(module)
    yield from modules(name)
