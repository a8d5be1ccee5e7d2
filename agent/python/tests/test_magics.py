"""IPython's syntax is translated, or refused with a hint; Python stays Python."""

import pathlib

from harness import KernelTest, needs, part_of_kernel


class Magics(KernelTest):
    def test_commands_run_in_a_shell(self):
        answer = self.run_ok("print('one', end=' ')\n!echo two; exit 3\nprint('three')\n_exit_code")
        self.assertEqual((answer.stdout, answer.value), ("one two\nthree\n", "3"))
        self.assertEqual(self.run_ok("if True:\n    !echo inner").stdout, "inner\n")
        self.assertEqual(self.run_ok("for i in 'ab':\n\t!echo again\n").stdout, "again\nagain\n")
        self.assertEqual(self.run_ok("!echo 'quoted (' \"$HOME\"").stdout[:9], "quoted ( ")
        self.assertEqual(self.run_ok("!echo a \\\n  b\nx = 3\nx").stdout, "a b\n")
        self.assertEqual(self.run_ok("!cat").stdout, "")

    def test_the_output_of_a_command_is_a_list_of_lines(self):
        code = "x = !echo one; echo two >&2\nx, x.s, x.n"
        self.assertEqual(self.run_ok(code).value, "(['one', 'two'], 'one two', 'one\\ntwo')")
        self.assertEqual(self.run_ok("d = {}\nd['a'] = !echo b\nd").value, "{'a': ['b']}")
        self.assertEqual(self.run_ok("!!echo c").value, "['c']")
        self.assertEqual(self.run_ok("for i in [1]:\n    y = !echo $i\ny").value, "['1']")

    def test_variables_are_replaced_in_commands_and_the_shells_own_stay(self):
        self.run_ok("name, n = 'x y', 3")
        for text, expected in (
            ("{name} $name $n", "x y x y 3"),
            ("{n + 1} {n:03d} {name.upper()}", "4 003 X Y"),
            ("'{name[2:]} {name[2:]:>3}'", "y   y"),
            ("'$$n'", "$n"),
            ("a{1,2} ${HOME:+set} $UNSET.", "a{1,2} set ."),
            ("a b | awk '{print $2}'", "b"),
        ):
            self.assertEqual(self.run_ok("!echo " + text).stdout, expected + "\n", text)
        code = "def f(local):\n    !echo {local}\nf('inside')"
        self.assertEqual(self.run_ok(code).stdout, "inside\n")

    def test_programs_run_cells_and_their_failure_is_an_error(self):
        self.assertEqual(self.run_ok("%%bash\necho $0\nfalse\necho b").stdout[-7:], "bash\nb\n")
        self.assertEqual(self.run_ok("%%sh\necho a").stdout, "a\n")
        self.assertEqual(self.run_ok("%%python3\nimport sys\nprint(len(sys.argv))").stdout, "1\n")
        self.assertEqual(self.run_ok("%%script cat -n\na").stdout, "     1\ta\n")
        answer = self.run_error("%%bash\necho out\nexit 7", "subprocess.CalledProcessError")
        self.assertEqual(answer.stdout, "out\n")
        self.assertIn("exit status 7", answer.message)
        self.assertNotIn("vivarium", answer.traceback)
        self.assertEqual(self.run_ok("%%bash --no-raise-error\nexit 7").completion, "ok")
        self.run_ok("%%bash --out a --err b\necho out; echo err >&2")
        self.assertEqual(self.run_ok("a, b").value, "('out\\n', 'err\\n')")
        answer = self.run_error("%%script no-such-program\nx", "IPython.core.error.UsageError")
        self.assertIn("there is no program no-such-program", answer.message)

    def test_time_prints_how_long_code_took(self):
        for code, value in (
            ("%%time\nx = 1\nx + 1", "2"),
            ("%time 5", "5"),
            ("%time x = {1: 5}[1]", None),
            ("%time x = 5\nx", "5"),
            ("y = %time 5\ny", "5"),
        ):
            answer = self.run_ok(code)
            self.assertEqual(answer.value, value)
            self.assertRegex(
                answer.stdout, r"^CPU times: total: [\d.]+ .?s\nWall time: [\d.]+ .?s\n$"
            )
        self.assertEqual(self.run_ok("1").stdout, "")
        answer = self.run_error("%%time\n1/0", "ZeroDivisionError")
        self.assertIn("Wall time", answer.stdout)
        self.assertIn('", line 2, in <module>\n    1/0', answer.traceback)
        self.assertNotIn("vivarium", answer.traceback)
        code = "%%time\nimport asyncio\nawait asyncio.sleep(0, 4)"
        self.assertEqual(self.run_ok(code).value, "4")

    def test_timeit_measures_code_in_the_users_module(self):
        self.run_ok("def f(n): return {'n': n}")
        line = r"^[\d.]+ .?s ± [\d.]+ .?s per loop \(mean ± std. dev. of 2 runs, 3 loops each\)\n$"
        self.assertRegex(self.run_ok("%timeit -n 3 -r 2 f(1)").stdout, line)
        self.assertRegex(self.run_ok("%%timeit -n3 -r2 x = 5\nf(x)\nf(x)").stdout, line)
        answer = self.run_ok("t = %timeit -q -o -n 1 -r 1 f(1)\nt.loops, t.average > 0")
        self.assertEqual((answer.value, answer.stdout), ("(1, True)", ""))
        self.run_error("%timeit -n x f(1)", "IPython.core.error.UsageError")
        self.run_error("%timeit -n 1 1/0", "ZeroDivisionError")

    def test_a_duration_is_shown_in_the_unit_that_it_is_rounded_to(self):
        self.run_ok("%time 1")
        self.run_ok("timing = " + part_of_kernel("timing"))
        for seconds, shown in (
            ("999.7e-9", "1 µs"),
            ("999.4e-9", "999 ns"),
            ("999.7e-6", "1 ms"),
            ("0.9997", "1 s"),
            ("0", "0 ns"),
            ("59.9", "59.9 s"),
            ("61", "1 min 1 s"),
        ):
            with self.subTest(seconds):
                self.assert_value("timing.in_units(%s)" % seconds, repr(shown))

    def test_directories_and_environment(self):
        pathlib.Path(self.workdir, "sub").mkdir()
        answer = self.run_ok("%cd sub\n%pwd")
        self.assertEqual(answer.value, repr(self.workdir + "/sub"))
        self.assertEqual(self.run_ok("%cd -").stdout, self.workdir + "\n")
        self.assertIn("No such file", self.run_ok("%cd nowhere").stdout)
        self.assertEqual(self.run_ok("%env A=b c\n%env A").value, "'b c'")
        self.assertEqual(self.run_ok("%set_env A d\n!echo $A").stdout, "env: A=d\nd\n")
        self.assertEqual(self.run_ok("e = %env\ne['A']").value, "'d'")
        self.run_error("%env NOT_SET", "IPython.core.error.UsageError")
        self.assertEqual(self.run_ok("%ls").stdout, "sub\n")

    def test_writefile_and_run(self):
        self.assertEqual(self.run_ok("%%writefile a.py\nx = (\n").stdout, "Writing a.py\n")
        self.run_ok("%%writefile -a a.py\n1)")
        self.assertEqual(pathlib.Path(self.workdir, "a.py").read_text(), "x = (\n1)\n")
        self.assertEqual(
            self.run_ok("%%file a.py\nimport sys\ny = sys.argv").stdout, "Overwriting a.py\n"
        )
        self.assertEqual(self.run_ok("%run a.py 1 'b c'\ny").value, "['a.py', '1', 'b c']")
        self.assertEqual(self.run_ok("import sys\nsys.argv").value, "['']")
        self.run_ok("%%writefile b.py\nz = y[1]")
        self.assertEqual(self.run_ok("%run -i b.py\nz").value, "'1'")
        self.run_error("%run b.py", "NameError")

    def test_capture_collects_what_a_cell_prints_and_shows(self):
        code = "%%capture out\nprint('a')\n!echo b\ndisplay({'text/html': '<b>'}, raw=True)\n5"
        answer = self.run_ok(code)
        self.assertEqual((answer.stdout, answer.value, answer.displays), ("", None, []))
        self.assertEqual(self.run_ok("out.stdout").value, "'a\\nb\\n'")
        code = "[o.data for o in out.outputs]"
        self.assertEqual(self.run_ok(code).value, "[{'text/html': '<b>'}, {'text/plain': '5'}]")
        answer = self.run_ok("out.show()")
        self.assertEqual((answer.stdout, len(answer.displays)), ("a\nb\n", 2))
        self.assertEqual(self.run_ok("%%capture --no-stdout\nprint('c')").stdout, "c\n")
        self.run_error("%%capture kept\nprint('d')\n1/0", "ZeroDivisionError")
        self.assertEqual(self.run_ok("kept.stdout").value, "'d\\n'")
        self.assert_usable()

    def test_cells_are_shown_in_the_form_that_they_name(self):
        for name, mime_type in (
            ("html", "text/html"),
            ("markdown", "text/markdown"),
            ("latex", "text/latex"),
            ("svg", "image/svg+xml"),
            ("javascript", "application/javascript"),
        ):
            ((kind, _, forms),) = self.shown("%%%%%s\n<b>x</b>\ny" % name)
            self.assertEqual((kind, forms[mime_type]), ("display", b"<b>x</b>\ny"))

    def test_help_and_source_are_printed(self):
        self.assertIn("len(obj", self.run_ok("len?").stdout)
        self.assertIn("len(obj", self.run_ok("?len").stdout)
        self.run_ok("def f():\n    return 'source'")
        self.assertIn("return 'source'", self.run_ok("f??").stdout)

    def test_variables_are_listed_and_removed(self):
        self.run_ok("import sys\na, b = [1, 2], 'text'")
        self.assertEqual(self.run_ok("%who").stdout, "a  b\n")
        self.assertEqual(self.run_ok("%who_ls").value, "['a', 'b']")
        self.assertIn("a          list   2\n", self.run_ok("%whos").stdout)
        self.run_ok("%reset -f")
        self.run_error("a", "NameError")
        self.assert_usable()

    def test_what_is_not_needed_does_nothing(self):
        for line in (
            "%matplotlib inline",
            "%config A.b = 'c'",
            "%load_ext autoreload",
            "%autoreload 2",
        ):
            answer = self.run_ok(line + "\n1")
            self.assertEqual((answer.value, answer.stdout, answer.stderr), ("1", "", ""))

    def test_an_unknown_line_magic_does_nothing_and_the_others_run(self):
        answer = self.run_ok("x = 1\n%timit x\nx + 1")
        self.assertEqual(answer.value, "2")
        self.assertIn("no magic is called %timit: did you mean %timeit?", answer.stderr)
        self.assertIn("%lsmagic lists", self.run_ok("%sql SELECT 1").stderr)
        self.assertIn("%%capture", self.run_ok("%lsmagic").stdout)
        self.run_error("x = %timit x", "IPython.core.error.UsageError")
        self.run_error("%%unknown\nx", "IPython.core.error.UsageError")

    def test_syntax_errors_show_the_line_as_it_was_written(self):
        answer = self.run_error("!ls\nx = = 3", "SyntaxError")
        self.assertIn("line 2\n    x = = 3\n        ^\n", answer.traceback)
        answer = self.run_error("%time x = = 3", "SyntaxError")
        self.assertIn("line 1\n    x = = 3\n", answer.traceback)
        self.assertNotIn("vivarium", answer.traceback)
        for code in ("%", "%%", "x = !ls = 3 =", "f(!ls)"):
            answer = self.kernel.run(code)
            self.assertNotIn("vivarium", answer.traceback or "", code)

    def test_get_ipython_offers_what_code_for_notebooks_calls(self):
        answer = self.run_ok(
            "ip = get_ipython()\nip.run_line_magic('matplotlib', 'inline')\nip.system('echo a')"
        )
        self.assertEqual(answer.stdout, "a\n")
        self.assertEqual(self.run_ok("ip.getoutput('echo b')").value, "['b']")
        self.assertEqual(self.run_ok("ip.magic('pwd')").value, repr(self.workdir))
        self.assertEqual(self.run_ok("x = 7\nip.user_ns['x'], ip.ev('x + 1')").value, "(7, 8)")
        self.assertEqual(self.run_ok("ip.run_cell('x = 8\\nx')\nx").value, "8")
        self.run_ok("ip.register_magic_function(lambda line: line * 2, 'line', 'twice')")
        self.assertEqual(self.run_ok("%twice ab").value, "'abab'")
        self.assertEqual(self.run_ok("'IPKernelApp' in get_ipython().config").value, "False")

    def test_a_trailing_semicolon_hides_the_value(self):
        self.run_ok("x = 5")
        for code in ("x;", "x; # why", "x ; ", "x;\n\n", "%time x;"):
            self.assertIsNone(self.run_ok(code).value, code)
        for code in ("x # a;", "x #;\n", "';'"):
            self.assertIsNotNone(self.run_ok(code).value, code)
        self.assertEqual(self.run_ok("_").value, "';'")

    def test_valid_python_is_never_translated(self):
        self.assert_value("x = 7\nx \\\n%4", "3")
        self.assert_value("'''\n!ls\n%time\n'''", "'\\n!ls\\n%time\\n'")
        self.assert_value("(7\n%4)", "3")

    def test_history_and_tracebacks_show_the_original_source(self):
        answer = self.run_error("!true\ndef f():\n    1/0\nf()", "ZeroDivisionError")
        self.assertIn('", line 4, in <module>\n    f()', answer.traceback)
        self.assert_value("In[-2][:5]", "'!true'")

    def test_a_command_can_be_interrupted(self):
        for code in (
            "!echo go; sleep 100",
            "%%bash\necho go; sleep 100",
            "%timeit -n 1 print('go'); import time; time.sleep(100)",
        ):
            answer = self.kernel.run(code, 1)
            self.assertEqual(answer.completion, "interrupted", code)
            self.assertNotIn("vivarium", answer.traceback)
            self.assert_usable()


@needs("matplotlib")
class Plots(KernelTest):
    def test_capture_collects_open_figures(self):
        code = "%%capture out\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])"
        answer = self.run_ok(code)
        self.assertEqual((answer.value, answer.displays), (None, []))
        self.assertIn("image/png", self.run_ok("[sorted(o.data) for o in out.outputs]").value)
        self.assertEqual(self.run_ok("1").displays, [])

    def test_matplotlib_takes_the_stand_in_of_ipython(self):
        code = "from IPython import get_ipython\nimport matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()"
        answer = self.run_ok(code)
        self.assertEqual([display.kind for display in answer.displays], ["image"])
