"""Runs the programs that cells call."""

import packages
from guard import load, main_module, sys
from streams import flush_in_use, is_original


class Lines(list):
    """The output of a command, in lines, with IPython's ways to read it."""

    n = nlstr = property("\n".join)
    s = spstr = property(" ".join)
    l = property(list)  # noqa: E741 - its name in IPython


def system(command):
    """Runs a command in a shell. Its exit code is in `_exit_code`."""
    installs = "install" in command
    before = packages.installed() if installs else {}
    vars(main_module)["_exit_code"] = run_program(command, shell=True).returncode
    packages.refresh()
    if installs:
        packages.note_shadowed(before)


def getoutput(command, split):
    """The standard output and error of a command."""
    subprocess = load("subprocess")
    done = subprocess.run(
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    vars(main_module)["_exit_code"] = done.returncode
    text = done.stdout.decode("utf-8", "replace")
    return Lines(text.splitlines()) if split else text


def run_program(program, stdin=None, collected=(), **options):
    """Runs a program. Its output goes where Python's does, even while user code collects that.

    `collected` names the streams that are for the caller alone.
    """
    flush_in_use()
    subprocess = load("subprocess")
    replaced = [name for name in ("stdout", "stderr") if not is_original(getattr(sys, name))]
    options.update(dict.fromkeys([*replaced, *collected], subprocess.PIPE))
    if stdin is None:
        options["stdin"] = subprocess.DEVNULL
    else:
        options["input"] = stdin.encode("utf-8", "backslashreplace")
    done = subprocess.run(program, **options)
    for name in replaced:
        if name not in collected:
            getattr(sys, name).write(getattr(done, name).decode("utf-8", "replace"))
    return done
