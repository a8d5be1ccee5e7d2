"""Exceptions are reported with source lines."""

import pathlib
import subprocess
import sys
import unittest

from harness import KernelTest


class Sources(KernelTest):
    def test_inspect_finds_sources_of_executions(self):
        self.run_ok(
            "def f():\n    return 'here'\n\nclass A:\n    def g(self):\n        return 'there'\n"
        )
        self.run_ok("import inspect")
        self.assertIn("return 'here'", self.run_ok("inspect.getsource(f)").value)
        self.assertIn("class A:", self.run_ok("inspect.getsource(A)").value)
        self.run_ok("def f():\n    return 'newer'")
        self.assertIn("return 'newer'", self.run_ok("inspect.getsource(f)").value)
        self.assertIn(
            "return 'now'", self.run_ok("def f():\n    return 'now'\ninspect.getsource(f)").value
        )

    def test_tracebacks_printed_by_user_code_have_lines(self):
        answer = self.run_ok(
            "import traceback\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()"
        )
        self.assertIn('File "<execution 1>", line 3, in <module>\n    1/0', answer.stderr)
        self.assertNotIn("vivarium", answer.stderr)

    def test_tracebacks_have_lines_of_earlier_executions(self):
        self.run_ok("\n\ndef f():\n    return 1/0  # here")
        trace = self.run_error("f()", "ZeroDivisionError").traceback
        self.assertIn('File "<execution 1>", line 4, in f\n    return 1/0  # here', trace)
        self.run_ok("import linecache; linecache.clearcache()")
        self.assertIn("# here", self.run_error("f()", "ZeroDivisionError").traceback)

    def test_odd_line_ends_do_not_shift_lines(self):
        trace = self.run_error("a = '\x0c\x1c\u2028'\r\nb = 1\r1/0", "ZeroDivisionError").traceback
        self.assertIn("line 3, in <module>\n    1/0", trace)

    def test_old_sources_are_evicted(self):
        self.run_ok("import linecache\ndef f(): 1/0")
        for _ in range(1010):
            self.run_ok("x = 1")
        self.assert_value("len([k for k in linecache.cache if k.startswith('<exec')])", "1000")
        self.run_error("f()", "ZeroDivisionError")

    def test_thread_tracebacks_have_lines(self):
        answer = self.run_ok(
            "import threading\ndef work():\n    raise ValueError('in thread')\n"
            "t = threading.Thread(target=work, name='worker'); t.start(); t.join()"
        )
        self.assertIn("Exception in thread worker:", answer.stderr)
        self.assertIn("    raise ValueError('in thread')", answer.stderr)

    def test_warnings_point_at_the_line(self):
        answer = self.run_ok("import warnings\n\nwarnings.warn('careful')")
        self.assertEqual(
            answer.stderr, "<execution 1>:3: UserWarning: careful\n  warnings.warn('careful')\n"
        )
        answer = self.run_ok("\n\nwarnings.warn('careful')")
        self.assertIn("<execution 2>:3: UserWarning: careful", answer.stderr)
        answer = self.run_ok("x = 5\nx is 5")
        self.assertIn("<execution 3>:2: SyntaxWarning: ", answer.stderr)
        self.assertIn("\n  x is 5\n", answer.stderr)

    def test_modules_with_hooks_keep_their_loader(self):
        code = "import %s as m\nvars(m.__loader__).get('exec_module'), m.__spec__.loader is m.__loader__"
        for module in ("threading", "inspect"):
            self.assert_value(code % module, "(None, True)")


class Exceptions(KernelTest):
    def test_every_kind_of_exception_is_reported(self):
        for code, kind, message in (
            ("1/0", "ZeroDivisionError", "division by zero"),
            ("raise SystemExit", "SystemExit", ""),
            ("exit()", "SystemExit", "None"),
            ("import sys; sys.exit(3)", "SystemExit", "3"),
            ("raise GeneratorExit('g')", "GeneratorExit", "g"),
            (
                "import asyncio; raise asyncio.CancelledError('c')",
                "asyncio.exceptions.CancelledError",
                "c",
            ),
            ("class Mine(BaseException): pass\nraise Mine('m')", "Mine", "m"),
            ("import decimal; raise decimal.Inexact('d')", "decimal.Inexact", "d"),
            ("raise KeyError('k')", "KeyError", "'k'"),
            ("raise StopIteration(1)", "StopIteration", "1"),
            ("raise ValueError('\\ud800')", "ValueError", "\\ud800"),
            ("def f(): f()\nf()", "RecursionError", None),
            ("x = []\nfor i in range(100000): x = [x]\nrepr(x)", "RecursionError", None),
            ("raise MemoryError", "MemoryError", ""),
            ("assert 1 == 2, 'no'", "AssertionError", "no"),
            ("del undefined", "NameError", None),
            ("import no_such_module", "ModuleNotFoundError", None),
        ):
            with self.subTest(code):
                answer = self.run_error(code, kind)
                if message is not None:
                    self.assertEqual(answer.message, message)
                self.assertIn(kind, answer.traceback)
                self.assertNotIn("vivarium", answer.traceback)
                self.assertNotIn("<string>", answer.traceback)
        self.assert_usable()

    def test_traceback_is_what_python_prints(self):
        code = "def f(x):\n    return 1 / x\n\ntry:\n    f(0)\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e\n"
        self.assert_as_python_prints(code, "ValueError")
        # Without `from`, and with a note, where there are any.
        code = "try:\n    {}['a']\nexcept KeyError:\n    e = ValueError('b')\n"
        code += "    getattr(e, 'add_note', print)('a note')\n    raise e\n"
        self.assert_as_python_prints(code, "ValueError")
        code = "def f(n):\n    return f(n - 1) if n else [][1]\nf(9)\n"
        self.assert_as_python_prints(code, "IndexError")

    def assert_as_python_prints(self, code, exception):
        ours = self.run_error(code, exception).traceback
        path = pathlib.Path(self.workdir, "script.py")
        path.write_text(code)
        pipe = subprocess.PIPE
        theirs = subprocess.run([sys.executable, str(path)], stdout=pipe, stderr=pipe).stderr
        name = "<execution %d>" % self.kernel.count
        self.assertEqual(ours, theirs.decode().replace(str(path), name))

    def test_syntax_errors_point_at_the_character(self):
        answer = self.run_error("x = 1\ny = = 2", "SyntaxError")
        self.assertIn('File "<execution 1>", line 2\n    y = = 2\n        ^', answer.traceback)
        self.assertNotIn("vivarium", answer.traceback)
        answer = self.run_error("def f():\n    pass\nreturn 5", "SyntaxError")
        self.assertIn("    return 5\n", answer.traceback)
        self.run_error("  x = 1", "IndentationError")
        self.run_error("if 1:\n\tx\n        y", "TabError")
        self.run_error("x = '\\N{nope}'", "SyntaxError")
        self.run_error("await = 3", "SyntaxError")
        self.run_error("yield 1", "SyntaxError")
        nul = self.kernel.run("x = '\0'")
        self.assertIn(
            (nul.completion, nul.exception), [("error", "ValueError"), ("error", "SyntaxError")]
        )
        self.assert_usable()

    def test_nesting_too_deep_for_the_parser_is_reported(self):
        for code in ("(" * 500 + ")" * 500, "-" * 3000 + "1", "+".join(["1"] * 20000)):
            answer = self.kernel.run(code)
            self.assertIn(answer.completion, ("ok", "error"), code[:10])
        self.assert_usable()

    def test_an_exception_whose_str_raises_or_hangs_is_reported(self):
        answer = self.run_error("class E(Exception):\n  def __str__(self): 1/0\nraise E", "E")
        self.assertEqual(answer.message, "<no message: str() raised ZeroDivisionError>")
        self.assertIn("    raise E", self.run_error("\nraise E", "E").traceback)
        code = "class E(Exception):\n  def __str__(self):\n    print('go')\n    while True: x = 5\nraise E"
        answer = self.run_error(code, "E", 1)
        self.assertIn("KeyboardInterrupt", answer.message)
        self.assertIn("raise E", answer.traceback)
        self.run_error("class E(Exception):\n  def __str__(self): return str(self)\nraise E", "E")
        self.run_error("class E(Exception):\n  def __str__(self): return 5\nraise E", "E")
        self.assert_usable()

    def test_hostile_exception_classes_are_reported(self):
        code = (
            "class E(Exception):\n"
            "  __traceback__ = property(lambda s: 1/0, lambda s, v: 1/0)\n"
            "  __context__ = property(lambda s: 1/0)\n  __cause__ = property(lambda s: 1/0)\n"
            "  __class__ = property(lambda s: int)\n"
            "  def __getattribute__(self, name): raise KeyboardInterrupt\n"
            "  def __eq__(self, other): raise SystemExit\n  __hash__ = None\n"
            "raise E('odd')"
        )
        answer = self.run_error(code, "E")
        self.assertEqual(answer.message, "odd")
        self.assert_usable()

    def test_long_and_circular_chains_are_reported(self):
        self.run_error(
            "e = ValueError('a'); f = KeyError('b')\ne.__cause__ = f; f.__cause__ = e\nraise e",
            "ValueError",
        )
        code = "e = None\nfor i in range(5000):\n  n = ValueError(i); n.__context__ = e; e = n\nraise e"
        answer = self.run_error(code, "ValueError")
        self.assertEqual(answer.message, "4999")
        self.assertIn("ValueError: 4999", answer.traceback)

    @unittest.skipIf(sys.version_info < (3, 11), "exception groups are of 3.11")
    def test_exception_groups_show_no_kernel_frames(self):
        answer = self.run_error(
            "try:\n  input()\nexcept EOFError as e:\n  raise ExceptionGroup('g', [e, ValueError(2)])",
            "ExceptionGroup",
        )
        self.assertIn("+---------------- 1", answer.traceback)
        self.assertNotIn("vivarium", answer.traceback)
        code = (
            "def f():\n    raise KeyError('inner')\ntry:\n    f()\nexcept KeyError as e:\n"
            "    raise ExceptionGroup('outer', [ExceptionGroup('nested', [e])]) from None\n"
        )
        self.assert_as_python_prints(code, "ExceptionGroup")

    def test_large_exceptions_are_truncated(self):
        answer = self.run_error("raise ValueError('x' * 3_000_000)", "ValueError")
        self.assertLessEqual(len(answer.message), 64 << 10)
        self.assertLessEqual(len(answer.traceback), 256 << 10)
        long_name = self.kernel.run("raise type('N' * 1_000_000, (Exception,), {})")
        self.assertEqual(long_name.completion, "error")
        self.assertLessEqual(len(long_name.exception), 4 << 10)

    def test_the_kernel_reports_that_memory_is_used_up(self):
        self.run_ok("import resource\nsoft, hard = resource.getrlimit(resource.RLIMIT_AS)")
        fill = (
            "resource.setrlimit(resource.RLIMIT_AS, (200 << 20, hard))\n"
            "def fill(x):\n  while True: x.append(bytearray(1 << 16))\n"
        )
        self.run_error(fill + "fill([])", "MemoryError")
        self.assert_usable()
        # Held by a global: there may be too little left to do anything but say so.
        self.run_error(fill + "x = []\nfill(x)", "MemoryError")
        for _ in range(3):
            answer = self.kernel.run("1 + 1")
            # CPython 3.12 has instructions that fail without saying that memory was short.
            allowed = [("2", None), (None, "MemoryError"), (None, "SystemError")]
            self.assertIn((answer.value, answer.exception), allowed)

    def test_tracebacks_free_what_they_held(self):
        self.run_error(
            "class A:\n  def __del__(self): print('gone')\ndef f():\n  a = A()\n  1/0\nf()",
            "ZeroDivisionError",
        )
        self.run_ok("import gc; gc.collect()")
        self.assert_value("sum(isinstance(o, A) for o in gc.get_objects())", "0")
