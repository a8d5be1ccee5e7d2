"""What `get_ipython()` returns: runs the commands and magics of IPython's syntax.

The methods have the names and arguments of IPython's `InteractiveShell`, as far as code written for
notebooks calls them. line_magics.py and cell_magics.py have the magics, each a function.
"""

import cell_magics
import line_magics
from context import UsageError, expanded, run_source, unknown
from guard import call_for_user, interruptible, main_module
from programs import getoutput, system
from streams import write_note


class Events:
    """Accepts the callbacks that libraries register for each cell, and calls none."""

    @interruptible
    def register(self, event, function):
        pass

    @interruptible
    def unregister(self, event, function):
        pass


class InteractiveShell:
    __module__ = "IPython.core.interactiveshell"

    config: dict = {}
    kernel = None
    events = Events()

    @property
    def user_ns(self):
        return vars(main_module)

    @interruptible
    def run_line_magic(self, magic_name, line, _stack_depth=1):
        return call_for_user(run_line_magic, magic_name, line)

    @interruptible
    def run_cell_magic(self, magic_name, line, cell):
        return call_for_user(run_cell_magic, magic_name, line, cell)

    @interruptible
    def magic(self, arg_s):
        name, _, line = arg_s.lstrip("%").partition(" ")
        return call_for_user(run_line_magic, name, line.strip())

    @interruptible
    def magic_line(self, name, line):
        """A magic on a line of its own: an unknown one does not keep the others from running."""
        return call_for_user(run_magic_statement, name, line)

    # A magic whose value is assigned.
    magic_value = run_line_magic

    @interruptible
    def system(self, cmd):
        call_for_user(system, expanded(cmd))

    @interruptible
    def getoutput(self, cmd, split=True):
        return call_for_user(getoutput, expanded(cmd), split)

    @interruptible
    def run_cell(self, raw_cell, **options):
        return call_for_user(run_source, raw_cell, "<run_cell>")

    @interruptible
    def ev(self, expr):
        return call_for_user(eval, expr, self.user_ns)

    @interruptible
    def ex(self, cmd):
        call_for_user(exec, cmd, self.user_ns)

    @interruptible
    def push(self, variables, interactive=True):
        self.user_ns.update(variables)

    @interruptible
    def register_magic_function(self, func, magic_kind="line", magic_name=None):
        kinds = {"line": [LINE], "cell": [CELL], "line_cell": [LINE, CELL]}
        for registered in kinds[magic_kind]:
            registered[magic_name or func.__name__] = func

    @interruptible
    def enable_gui(self, gui=None):
        pass

    enable_matplotlib = enable_pylab = set_next_input = enable_gui

    def __repr__(self):
        return "<vivarium: notebook syntax>"


SHELL = InteractiveShell()
LINE, CELL = line_magics.MAGICS, cell_magics.MAGICS
# Magics whose arguments are Python, which has braces of its own.
NOT_EXPANDED = {"time", "timeit"}


def run_line_magic(name, line):
    function = LINE.get(name)
    if function is None:
        raise UsageError(unknown("%", name, LINE))
    return function(line if name in NOT_EXPANDED else expanded(line))


def run_magic_statement(name, line):
    if name not in LINE:
        write_note(unknown("%", name, LINE) + "; the line did nothing, and the others run")
        return None
    return run_line_magic(name, line)


def run_cell_magic(name, line, cell):
    function = CELL.get(name)
    if function is None:
        raise UsageError(unknown("%%", name, CELL))
    return function(line if name in NOT_EXPANDED else expanded(line), cell)
