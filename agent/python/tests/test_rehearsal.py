"""The rehearsal of a spare: nothing is left of it."""

import json
import subprocess
import sys
import unittest

from harness import FILES, FOLDERS, ROOT

# All that the parts of the kernel program and Python's own modules keep, by name.
DESCRIBE = """
import sys
sys.path[:0] = %r
import guard, kernel, render, show, budget, lookup, rehearsal, after_fork

def describe(value, depth=0):
    kind = type(value)
    if kind in (list, tuple, dict, set, frozenset) and depth < 5:
        if kind is dict:
            value = value.items()
        told = [describe(it, depth + 1) for it in value]
        return [kind.__name__, sorted(told, key=repr) if kind in (set, frozenset) else told]
    if kind in (int, float, str, bytes, bool, type(None)):
        return repr(value)
    if depth < 5 and kind.__module__ in PARTS:
        return [kind.__name__, describe(vars(value), depth + 1)]
    return "%%s at %%s" %% (kind.__name__, id(value) if depth < 3 else "")

PARTS = %r
def all_that_is_kept():
    kept = {}
    for name in sorted(PARTS & sys.modules.keys()):
        for key, value in vars(sys.modules[name]).items():
            if key == "__builtins__":
                continue
            kind = value if type(value) is type else type(value)
            if kind.__module__ in PARTS:
                for own, it in {**vars(kind), **vars(value)}.items():
                    kept["%%s.%%s.%%s" %% (name, key, own)] = describe(it)
            else:
                kept[name + "." + key] = describe(value)
    for key in ("stdin", "__stdin__", "stdout", "stderr", "path", "meta_path", "argv", "displayhook", "excepthook"):
        kept["sys." + key] = describe(getattr(sys, key))
    kept["names"] = sorted(vars(guard.main_module))
    kept["builtins"] = sorted(vars(__import__("builtins")))
    kept["modules"] = sorted(sys.modules)
    return kept
"""

SCRIPT = """
compile("0", "", "eval", kernel.ONLY_AST, True)
kernel.state.has_ast_types = True
itself = sys.modules["__main__"]
sys.modules["__main__"] = guard.main_module
executions = []
run = kernel.execute
def counted(*arguments):
    run(*arguments)
    executions.append(arguments[0].failure)
kernel.execute = counted
import json, signal
before, handler = all_that_is_kept(), signal.getsignal(signal.SIGINT)
mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
rehearsal.rehearse()
assert signal.getsignal(signal.SIGINT) == handler
assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask
print(json.dumps([before, all_that_is_kept(), [repr(it) for it in executions]]))
"""

# What is different on purpose: whether the process is the one that may answer.
CHANGED = {"guard.state.pid"}


class RehearsalTest(unittest.TestCase):
    def run_script(self, script):
        folders = [str(ROOT / folder) for folder in FOLDERS]
        text = DESCRIBE % (folders, set(FILES)) + script
        done = subprocess.run(
            [sys.executable, "-c", text], capture_output=True, stdin=subprocess.DEVNULL, text=True
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def differences(self, script):
        before, after, executions = self.run_script(script)
        names = {
            name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
        }
        return {name: (before.get(name), after.get(name)) for name in names - CHANGED}, executions

    def test_nothing_is_left_of_it(self):
        differences, executions = self.differences(SCRIPT)
        self.assertEqual(executions, ["None"])
        self.assertEqual(differences, {})

    def test_nothing_is_left_of_it_in_linecache(self):
        script = SCRIPT.replace(
            "import json, signal", "import json, signal, linecache, source_cache"
        )
        script = script.replace(
            "rehearsal.rehearse()",
            "source_cache.on_linecache(linecache)\nrehearsal.rehearse()"
            "\nassert '<execution 1>' not in linecache.cache, linecache.cache",
        )
        self.run_script(script)

    def test_figures_that_a_warm_up_left_open_are_not_shown(self):
        script = """
import types
sys.modules["matplotlib._pylab_helpers"] = types.SimpleNamespace(Gcf=types.SimpleNamespace(figs=%s))
called = []
guard.state.post_execute.append(lambda: called.append(1))
rehearsal.rehearse()
assert len(guard.state.post_execute) == 1
assert len(called) == %d, called
"""
        for figures, calls in [("{1: None}", 0), ("{}", 1)]:
            self.run_script(SCRIPT.replace("\nrehearsal.rehearse()\n", script % (figures, calls)))

    def test_what_is_left_would_be_seen(self):
        left = "; import interactive; interactive.Out[1] = 2; guard.main_module.x = 3\nprint("
        differences, _ = self.differences(SCRIPT.replace("\nprint(", left))
        self.assertEqual(differences.keys(), {"interactive.Out", "names"})


if __name__ == "__main__":
    unittest.main()
