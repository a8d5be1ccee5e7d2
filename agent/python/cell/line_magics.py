"""The line magics: functions that get the rest of the line."""

import cell_magics
import interactive
import timing
from context import UsageError, split_arguments, unknown
from guard import builtins, interruptible, load, main_module, posix, sys
from programs import getoutput, system
from streams import write_note

# They change how IPython behaves, or where plots appear: here these are always shown.
NOTHING_TO_DO = """
    aimport alias_magic autocall automagic autoreload autosave clear colors config gui load_ext
    logoff logon logstart logstop matplotlib notebook pdb pprint precision rehashx reload_ext
    reset_selective unload_ext xmode
"""
# Programs that IPython makes available as magics.
PROGRAMS = "cat cp head ln ls mkdir mv rm rmdir tail touch"


class State:
    previous_directory: "str | None" = None


state = State()


def nothing(line):
    """For what has no effect in a session."""


def program(name):
    def run(line):
        system("%s %s" % (name, line))

    return run


def cd(line):
    before = posix.getcwd()
    target = line.strip().strip("\"'") or "~"
    if target == "-":
        if state.previous_directory is None:
            raise UsageError("%cd -: there is no previous directory")
        target = state.previous_directory
    try:
        posix.chdir(load("os").path.expanduser(target))
    except OSError as error:
        print(error)
        return
    state.previous_directory = before
    print(posix.getcwd())


def pwd(line):
    return posix.getcwd()


def env(line):
    variables = load("os").environ
    name, sign, value = line.partition("=" if "=" in line else " ")
    if not line:
        return dict(variables)
    if not sign:
        try:
            return variables[name]
        except KeyError:
            raise UsageError("the environment variable %s is not set" % name) from None
    variables[name.strip()] = value.strip()
    print("env: %s=%s" % (name.strip(), value.strip()))
    return None


def conda(line):
    write_note("conda is not here: %pip installs from an index of Python packages")


def run(line):
    """Runs a script as `__main__`, and takes over the variables that it leaves."""
    words = split_arguments(line)
    in_namespace = words[:1] == ["-i"]
    words = words[in_namespace:]
    if not words:
        raise UsageError("%run needs the name of a script")
    argv, sys.argv = sys.argv, words
    try:
        start = dict(vars(main_module)) if in_namespace else None
        left = load("runpy").run_path(words[0], start, "__main__")
    finally:
        sys.argv = argv
    vars(main_module).update({name: it for name, it in left.items() if not name.startswith("__")})


def variables():
    """The names of the user's variables, sorted."""
    return sorted(
        name
        for name, it in vars(main_module).items()
        if not name.startswith("_") and type(it) is not type(builtins)
    )


def who(line):
    print("  ".join(variables()) or "Interactive namespace is empty.")


def who_ls(line):
    return variables()


def whos(line):
    rows = [("Variable", "Type", "Data/Info")]
    for name in variables():
        it = vars(main_module)[name]
        info = getattr(it, "shape", None) or (len(it) if type(it) in (list, dict, set) else it)
        text = str(info) if type(info) is tuple else repr(info)
        rows.append((name, type(it).__name__, text.replace("\n", " ")[:60]))
    widths = [max(len(row[at]) for row in rows) for at in (0, 1)]
    for name, kind, text in rows:
        print("%-*s   %-*s   %s" % (widths[0], name, widths[1], kind, text))


def reset(line):
    """Removes the user's variables."""
    names = vars(main_module)
    for name in [name for name in names if not name.startswith("__")]:
        del names[name]
    interactive.Out.clear()


def history(line):
    for source in interactive.In[1:]:
        print(source.rstrip("\n"))


def lsmagic(line):
    print("Line magics: " + " ".join("%" + name for name in sorted(MAGICS)))
    print("Cell magics: " + " ".join("%%" + name for name in sorted(cell_magics.MAGICS)))


def pinfo(line):
    help(found(line))


def pinfo2(line):
    """The source of an object, or else its documentation."""
    it = found(line)
    try:
        print(load("inspect").getsource(it))
    except (OSError, TypeError):
        help(it)


def found(line):
    if line.startswith("%"):
        function = MAGICS.get(line.lstrip("%"))
        if function is None:
            raise UsageError(unknown("%", line.lstrip("%"), MAGICS))
        return function
    return eval(line, vars(main_module))


def sx(line):
    return getoutput(line, True)


MAGICS = {
    "cd": cd,
    "conda": conda,
    "env": env,
    "hist": history,
    "history": history,
    "lsmagic": lsmagic,
    "mamba": conda,
    "pinfo": pinfo,
    "pinfo2": pinfo2,
    "pip": program("pip"),
    "psource": pinfo2,
    "pwd": pwd,
    "reset": reset,
    "run": run,
    "set_env": env,
    "sx": sx,
    "system": sx,
    "time": timing.time_line,
    "timeit": timing.timeit_line,
    "uv": program("uv"),
    "who": who,
    "who_ls": who_ls,
    "whos": whos,
    **{name: program(name) for name in PROGRAMS.split()},
    **dict.fromkeys(NOTHING_TO_DO.split(), nothing),
}
for function in MAGICS.values():
    interruptible(function)
