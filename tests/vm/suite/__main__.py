"""Runs the tests in the order in which an operator would meet what they test, prints each, and
ends with a line that counts them."""

import importlib
import subprocess
import sys
import time
import traceback
import unittest

ORDER = [
    "installing",
    "monitoring",
    "layers",
    "dumps",
    "memory",
    "leaves",
    "processes",
    "usage",
    "cpu",
    "tenants",
    "rivals",
    "disk",
    "leftovers",
    "service",
    "egress",
    "package",
]


class Printer(unittest.TestResult):
    passed = 0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def tell(self, word, test, error=None):
        seconds = time.monotonic() - self.began
        module, _, name = test.id().partition(".")
        print(f"{word:<4} {module}: {name.split('.')[-1].removeprefix('test_')} ({seconds:.1f} s)")
        if error:
            print("     " + "".join(traceback.format_exception(*error)).replace("\n", "\n     "))
        sys.stdout.flush()

    def addSuccess(self, test):
        self.passed += 1
        self.tell("ok", test)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.tell("FAIL", test, error)

    def addError(self, test, error):
        super().addError(test, error)
        # What is no test (setUpClass) has no beginning.
        self.began = getattr(self, "began", time.monotonic())
        self.tell("FAIL", test, error)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error:
            self.tell("FAIL", subtest, error)


def suite(module):
    """A module's tests in the order they are written in, which unittest's loader would sort."""
    tests = unittest.TestSuite()
    for cls in vars(module).values():
        if isinstance(cls, type) and issubclass(cls, unittest.TestCase):
            tests.addTests(cls(name) for name in vars(cls) if name.startswith("test_"))
    return tests


def main():
    wanted = sys.argv[1:] or ORDER
    printer = Printer()
    for name in ORDER:
        if name in wanted:
            began = time.monotonic()
            suite(importlib.import_module(name)).run(printer)
            print(f"     {name}: {time.monotonic() - began:.0f} s in all", flush=True)
    if not printer.wasSuccessful():
        print("the service's log:")
        subprocess.run(["journalctl", "--unit=vivarium", "--no-pager", "--lines=100"], check=False)
    failed = len(printer.failures) + len(printer.errors)
    print(f"{printer.passed} passed, {failed} failed")
    return 1 if failed or not printer.passed else 0


sys.exit(main())
