"""Translates IPython's syntax in a source that is not Python: `!command`, `%magic`, `name?`.

If a source does not compile, looks at the line at fault and translates it if it is one of a few
common forms; to one line, so that line numbers stay. Valid Python is never touched. Any other line
stays a syntax error, with a hint at what works.

- `!command` and a cell after `%%bash` or `%%sh` run in a shell. `{name}` is not replaced.
- `%time` and `%%time` print how long code took; `%%writefile` writes a file; `name?` is
  `help(name)`.
- `%matplotlib` and `%config` do nothing: plots are shown anyway.
- `pip install` in either syntax prints why it can not work, and the rest of the code runs: the
  package is often there already.
"""

import guard
from guard import builtins, call_user, interruptible, load, monotonic, process_time
from source_cache import lines_of
from streams import flush_in_use, write_note

HINT = (
    "lines that begin with ! or %% are IPython's. Here work !command, %%time, %%%%time, %%%%bash, "
    "%%%%sh and %%%%writefile; for %s use Python itself, or the commands of the session's API"
)
PIP = (
    "not run: %s. The packages of a session are those of its environment's interpreter, which is "
    "read-only; ask whoever runs this service for others. What is installed can be imported"
)
IGNORED = {"config", "matplotlib"}
HELPER = "__vivarium_line__"


class State:
    # When a `%time` began: wall clock, CPU time.
    timing: "tuple[float, float] | None" = None


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


def install_helper():
    """Installs the builtin that translated lines call."""
    setattr(builtins, HELPER, line_helper)


def translate(source, error):
    """The source with the line at fault translated; None if that is no known form."""
    lines = lines_of(source)
    first = next((at for at, line in enumerate(lines) if line.strip()), 0)
    if lines[first].startswith("%%"):
        return translate_cell(lines, first)
    at = error.lineno - 1 if type(error.lineno) is int else -1
    if not 0 <= at < len(lines):
        return None
    line = lines[at].strip()
    text = translate_line(line, last=not "".join(lines[at + 1 :]).strip())
    if text is not None:
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        return joined([*lines[:at], indent + text + "\n", *lines[at + 1 :]])
    if line.startswith(("!", "%")):
        error.msg = "%s (%s)" % (error.msg, HINT % line.split()[0])
    return None


def translate_cell(lines, first):
    """Translates a cell with a magic in its first line; None if that is not known."""
    name, _, argument = lines[first][2:].strip().partition(" ")
    before, rest = lines[:first], lines[first + 1 :]
    # `lines_of` adds a line end to the last line.
    text = "".join(rest)[:-1]
    text = text if text.endswith("\n") else text + "\n"
    if name == "time":
        return joined([*before, "%s('time')\n" % HELPER, *rest])
    if name in ("bash", "sh"):
        line = "%s(%r, %r)\n" % (HELPER, name, text)
    elif name == "writefile" and argument.strip():
        line = "%s('writefile', %r, %r)\n" % (HELPER, argument.strip(), text)
    else:
        return None
    return joined([*before, line, *["\n"] * len(rest)])


def point_at_original(error, source):
    """Makes a syntax error in a translated line show the line as the user wrote it."""
    lines = lines_of(source)
    at = error.lineno - 1 if type(error.lineno) is int else -1
    if 0 <= at < len(lines) and type(error.text) is str and HELPER in error.text:
        error.text, error.offset, error.end_offset = lines[at], 1, 0


def joined(lines):
    """Joins lines, without the line end that `lines_of` adds to the last one."""
    return "".join(lines)[:-1]


def translate_line(line, last):
    """A line of IPython's syntax in Python; None if it is no known form."""
    if line.startswith("!"):
        command = line.lstrip("!").strip()
        return "%s(%r, %r)" % (HELPER, "pip" if is_pip(command) else "!", command)
    if line.startswith("%") and not line.startswith("%%"):
        name, _, rest = line[1:].partition(" ")
        if name in IGNORED:
            return "pass"
        if name in ("pip", "conda", "mamba"):
            return "%s('pip', %r)" % (HELPER, line)
        if name == "time" and rest.strip():
            # The last line must stay an expression, which is the value of the execution.
            end = "" if last else "; %s('time end')" % HELPER
            return "%s('time'); %s%s" % (HELPER, rest.strip(), end)
        return None
    name = line.strip("?")
    if line != name and all(part.isidentifier() for part in name.split(".")):
        return "help(%s)" % name
    return None


def is_pip(command):
    words = command.split()
    if words[:1] and words[0].startswith("python") and words[1:2] == ["-m"]:
        words = words[2:]
    return words[:1] in (["pip"], ["pip3"], ["conda"]) and "install" in words


@interruptible
def line_helper(kind, text="", content=None):
    """Translated lines call this."""
    if kind == "pip":
        write_note(PIP % text)
    elif kind == "writefile":
        write_file(text, content)
    elif kind == "time":
        State.timing = monotonic(), process_time()
        if end_timing not in guard.State.post_execute:
            guard.State.post_execute.append(end_timing)
    elif kind == "time end":
        end_timing()
    else:
        run_shell(text, None if kind in ("!", "sh") else kind)


@interruptible
def run_shell(command, shell):
    flush_in_use()
    subprocess = load("subprocess")
    executable = load("shutil").which(shell) if shell else None
    subprocess.run(command, shell=True, executable=executable, stdin=subprocess.DEVNULL)


@interruptible
def write_file(argument, content):
    append = argument.startswith("-a ")
    path = argument[3:].strip() if append else argument
    with load("io").open(path.strip("'\""), "a" if append else "w", encoding="utf-8") as file:
        file.write(content)
    print("%s %s" % ("Appending to" if append else "Writing", path))


def end_timing():
    """Prints the times since `%time`, once."""
    if State.timing is not None:
        (wall, cpu), State.timing = State.timing, None
        text = "CPU time: %s\nWall time: %s"
        times = process_time() - cpu, monotonic() - wall
        call_user(print, text % tuple(format_seconds(seconds) for seconds in times))


def format_seconds(seconds):
    return "%.3g s" % seconds if seconds >= 1 else "%.3g ms" % (seconds * 1e3)
