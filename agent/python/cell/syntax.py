"""Translates IPython's syntax in a source that is not Python: `!command`, `%magic`, `name?`.

If a source does not compile, looks at the line at fault and translates it to one call, so that line
numbers stay. Never looks at a source that is Python. shell.py has what the calls do.
"""

from source_cache import lines_of

# What translated lines call. Unlike `get_ipython`, it is not a name that user code assigns.
SHELL = "__vivarium_shell__()"
# What may stand before the `=` of `files = !ls`.
TARGET_SIGNS = frozenset("_.,[]'\" *")


def translate_all(source, error, compile_source):
    """Translates line after line at fault, until the source compiles or none can be translated.

    Returns the source, its code and the last error, one of them None.
    """
    while True:
        translated = translate(source, error)
        if translated is None:
            return source, None, error
        source = translated
        try:
            return source, compile_source(source), None
        except SyntaxError as caught:
            error = caught


def translate(source, error):
    """The source with the line at fault translated; None if that is not in IPython's syntax."""
    lines = lines_of(source)
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        # `lines_of` adds a line end to the last line.
        body = "".join(lines[first + 1 :])[:-1]
        name, _, arguments = lines[first][2:].strip().partition(" ")
        call = "%s.run_cell_magic(%r, %r, %r)\n" % (SHELL, name, arguments.strip(), body)
        return "".join([*lines[:first], call, *["\n"] * (len(lines) - first - 1)]) if name else None
    at = error.lineno - 1 if type(error.lineno) is int else -1
    if not 0 <= at < len(lines):
        return None
    line, end = lines[at].strip(), at + 1
    while line.endswith("\\") and end < len(lines):
        line, end = line[:-1] + lines[end].strip(), end + 1
    text = translate_line(line)
    if text is None:
        return None
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    return "".join([*lines[:at], indent + text + "\n", *["\n"] * (end - at - 1), *lines[end:]])


def translate_line(line):
    """A line of IPython's syntax in Python; None if it is not one."""
    call = translate_call(line)
    if call is not None:
        return call
    target, sign, value = line.partition("=")
    target, value = target.strip(), value.strip()
    if sign and target and all(sign.isalnum() or sign in TARGET_SIGNS for sign in target):
        call = translate_call(value, "magic_value")
        return None if call is None else "%s = %s" % (target, call)
    name = line.strip("?")
    if line != name and all(part.isidentifier() for part in name.lstrip("%").split(".")):
        magic = "pinfo2" if "??" in line else "pinfo"
        return "%s.run_line_magic(%r, %r)" % (SHELL, magic, name)
    return None


def translate_call(line, magic="magic_line"):
    """A command or a line magic as a call; None if the line is neither."""
    if line.startswith("!"):
        captured = magic == "magic_value" or line.startswith("!!")
        return "%s.%s(%r)" % (
            SHELL,
            "getoutput" if captured else "system",
            line.lstrip("!").strip(),
        )
    name, _, arguments = line[1:].partition(" ")
    if line.startswith("%") and name.isidentifier():
        return "%s.%s(%r, %r)" % (SHELL, magic, name, arguments.strip())
    return None


def point_at_original(error, source):
    """Makes a syntax error in a translated line show the line as the user wrote it."""
    lines = lines_of(source)
    at = error.lineno - 1 if type(error.lineno) is int else -1
    if 0 <= at < len(lines) and type(error.text) is str and SHELL in error.text:
        error.text, error.offset, error.end_offset = lines[at], 1, 0
