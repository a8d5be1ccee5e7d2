"""Runs one of CPython's test modules: tests/tests/runtimes/cpython.rs sends this to a session, with
a call of `run` after it.

The file `report` gets a line when a test begins, when it has ended, and what came of it in between.
So it names the test that a kernel has ended with.
"""

import builtins
import os
import sys
import unittest


class Report(unittest.TestResult):
    def __init__(self, module, file):
        super().__init__()
        self.prefix = "test." + module + "."
        self.file = file
        self.failed = False

    def name(self, test):
        """That of a subtest is its test's."""
        return getattr(test, "test_case", test).id().removeprefix(self.prefix)

    def line(self, kind, test, why=""):
        line = "%s %s\t%s" % (kind, self.name(test), why)
        os.write(self.file, (line.replace("\n", " ") + "\n").encode("utf-8", "replace"))

    def startTest(self, test):
        super().startTest(test)
        self.failed = False
        self.line("began", test)

    def stopTest(self, test):
        super().stopTest(test)
        self.line("ended", test)

    def addSuccess(self, test):
        if not self.failed:
            self.line("passed", test)

    def addFailure(self, test, err):
        self.failed = True
        self.line("failed", test, self._exc_info_to_string(err, test).strip().splitlines()[-1])

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.addFailure(subtest, err)

    def addExpectedFailure(self, test, err):
        self.line("passed", test)

    def addUnexpectedSuccess(self, test):
        self.line("failed", test, "unexpected success")


def all_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from all_of(test)
        else:
            yield test


def load(module):
    from test import support

    # Python 3.14 makes the annotations of a module when they are asked for; a module that these
    # tests import adds to them before.
    builtins.__annotations__ = {}
    # asyncio's loop gets on without sockets, and few of its tests need any.
    support.has_socket_support = True
    try:
        return unittest.defaultTestLoader.loadTestsFromName("test." + module)
    finally:
        del builtins.__annotations__


def run(module, only=(), left_out=()):
    """Runs these tests of a module, or all but those that are left out.

    The tests are in the directory `tests` of the working directory.
    """
    sys.path.insert(0, os.path.abspath("tests"))
    os.mkdir("work")
    file = os.open("report", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.chdir("work")
    try:
        report = Report(module, file)
        tests = [(report.name(test), test) for test in all_of(load(module))]
        wanted = [test for name, test in tests if (name in only if only else name not in left_out)]
        unittest.TestSuite(wanted).run(report)
    finally:
        os.chdir("..")
        os.close(file)
