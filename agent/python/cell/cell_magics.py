"""The cell magics: functions that get the rest of the first line, and the lines below it."""

import capture
import timing
from context import UsageError, split_arguments
from guard import interruptible, load, main_module, sys
from interactive import display
from programs import getoutput, run_program

# Programs that run the cell.
PROGRAMS = ("bash", "node", "perl", "ruby", "sh")
# Their options that collect an output in a variable.
COLLECTED = {"stdout": "--out", "stderr": "--err"}


def shown_as(mime_type):
    def show(line, body):
        display({mime_type: body, "text/plain": "<%s>" % mime_type}, raw=True)

    return show


def script(line, body):
    """Runs the cell by a program, which reads it from its standard input."""
    program, options = script_options(line)
    subprocess = load("subprocess")
    collected = {name: options[option] for name, option in COLLECTED.items() if option in options}
    if not program:
        raise UsageError("%%script needs the name of a program")
    try:
        done = run_program(program, stdin=body + "\n", collected=tuple(collected))
    except FileNotFoundError:
        raise UsageError("there is no program %s in this session" % program[0]) from None
    for name, variable in collected.items():
        vars(main_module)[variable] = getattr(done, name).decode("utf-8", "replace")
    vars(main_module)["_exit_code"] = done.returncode
    if done.returncode and "--no-raise-error" not in options:
        raise subprocess.CalledProcessError(done.returncode, " ".join(program))


def script_options(line):
    """The program with its arguments, and our own options, which come first."""
    words, options = split_arguments(line), {}
    program, words = words[:1], words[1:]
    while words[:1] and words[0].startswith("--"):
        name, sign, value = words.pop(0).partition("=")
        if name in COLLECTED.values() and (sign or words):
            options[name] = value if sign else words.pop(0)
        elif name in ("--no-raise-error", "--bg"):
            options[name] = ""
        else:
            program.append(name + sign + value)
    return program + words, options


def by_program(name):
    def run(line, body):
        script("%s %s" % (name, line), body)

    return run


def python(line, body):
    """Runs the cell in a process of its own, with the session's interpreter."""
    script("%s %s" % (load("shlex").quote(sys.executable), line or "-"), body)


def writefile(line, body):
    append = line.startswith("-a ")
    path = load("os").path.expanduser((line[3:] if append else line).strip().strip("'\""))
    if not path:
        raise UsageError("%%writefile needs the name of a file")
    exists = load("os").path.exists(path)
    with load("io").open(path, "a" if append else "w", encoding="utf-8") as file:
        file.write(body if body.endswith("\n") else body + "\n")
    print("%s %s" % ("Appending to" if append else "Overwriting" if exists else "Writing", path))


def sx(line, body):
    return getoutput(body, True)


MAGICS = {
    "HTML": shown_as("text/html"),
    "SVG": shown_as("image/svg+xml"),
    "capture": capture.capture_cell,
    "file": writefile,
    "html": shown_as("text/html"),
    "javascript": shown_as("application/javascript"),
    "js": shown_as("application/javascript"),
    "latex": shown_as("text/latex"),
    "markdown": shown_as("text/markdown"),
    "python": python,
    "python3": python,
    "script": script,
    "svg": shown_as("image/svg+xml"),
    "sx": sx,
    "system": sx,
    "time": timing.time_cell,
    "timeit": timing.timeit_cell,
    "writefile": writefile,
    **{name: by_program(name) for name in PROGRAMS},
}
for function in MAGICS.values():
    interruptible(function)
