"""IPython's syntax is translated, or refused with a hint; Python stays Python."""

import pathlib

from harness import KernelTest


class Magics(KernelTest):
    def test_commands_run_in_a_shell(self):
        answer = self.run_ok("print('one', end=' ')\n!echo two; exit 3\nprint('three')\n5")
        self.assertEqual((answer.stdout, answer.value), ("one two\nthree\n", "5"))
        self.assertEqual(self.run_ok("if True:\n    !echo inner").stdout, "inner\n")
        self.assertEqual(self.run_ok("for i in 'ab':\n\t!echo again\n").stdout, "again\nagain\n")
        self.assertEqual(self.run_ok("!echo 'quoted (' \"$HOME\"").stdout[:9], "quoted ( ")
        self.assertEqual(self.run_ok("%%bash\necho $0\nfalse\necho b").stdout[-7:], "bash\nb\n")
        self.assertEqual(self.run_ok("!cat").stdout, "")

    def test_time_prints_how_long_code_took(self):
        for code, value in (
            ("%%time\nx = 1\nx + 1", "2"),
            ("%time 5", "5"),
            ("%time x = 5", None),
            ("%time x = 5\nx", "5"),
        ):
            answer = self.run_ok(code)
            self.assertEqual(answer.value, value)
            self.assertRegex(answer.stdout, r"^CPU time: [\d.e-]+ ms\nWall time: [\d.e-]+ ms\n$")
        self.assertEqual(self.run_ok("1").stdout, "")
        answer = self.run_error("%%time\n1/0", "ZeroDivisionError")
        self.assertIn("Wall time", answer.stdout)
        self.assertIn('", line 2, in <module>\n    1/0', answer.traceback)

    def test_writefile_matplotlib_and_help_work(self):
        self.assertEqual(self.run_ok("%%writefile a.py\nx = (\n").stdout, "Writing a.py\n")
        self.run_ok("%%writefile -a a.py\n1)")
        self.assertEqual(pathlib.Path(self.workdir, "a.py").read_text(), "x = (\n1)\n")
        self.assert_value("%matplotlib inline\n%config A.b = 'c'\n1", "1")
        self.assertIn("len(obj", self.run_ok("len?").stdout)
        self.assertIn("len(obj", self.run_ok("?len").stdout)

    def test_pip_says_why_not_and_the_rest_runs(self):
        for line in ("!pip install x", "%pip install x", "!python3 -m pip install x"):
            answer = self.run_ok(line + "\n5")
            self.assertEqual(answer.value, "5")
            self.assertIn("vivarium: not run: ", answer.stderr)

    def test_unknown_magics_are_errors_with_a_hint(self):
        for line in ("%timeit 5", "%%html", "%", "x = !ls", "%%time"):
            self.run_error("y = 1\n" + line, "SyntaxError")
        self.run_error("%%unknown\nx", "SyntaxError")
        answer = self.run_error("y = 1\n  \nif y:\n    %timeit y", "SyntaxError")
        self.assertIn("line 4\n    %timeit y\n    ^\n", answer.traceback)
        self.assertIn("lines that begin with ! or % are IPython's", answer.message)
        answer = self.run_error("!ls\nx = = 3", "SyntaxError")
        self.assertIn("line 2\n    x = = 3\n        ^\n", answer.traceback)
        answer = self.run_error("%time x = = 3", "SyntaxError")
        self.assertIn("line 1\n    %time x = = 3\n", answer.traceback)
        self.assertNotIn("vivarium", answer.traceback)

    def test_valid_python_is_never_translated(self):
        self.assert_value("x = 7\nx \\\n%4", "3")
        self.assert_value("'''\n!ls\n%time\n'''", "'\\n!ls\\n%time\\n'")
        self.assert_value("(7\n%4)", "3")

    def test_history_and_tracebacks_show_the_original_source(self):
        answer = self.run_error("!true\ndef f():\n    1/0\nf()", "ZeroDivisionError")
        self.assertIn('", line 4, in <module>\n    f()', answer.traceback)
        self.assert_value("In[-2][:5]", "'!true'")

    def test_a_command_can_be_interrupted(self):
        answer = self.kernel.run("!echo go; sleep 100", 1)
        self.assertEqual(answer.completion, "interrupted")
        self.assertNotIn("vivarium", answer.traceback)
        self.assert_usable()
