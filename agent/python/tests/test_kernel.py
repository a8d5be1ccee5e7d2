"""Values, `__main__`, parts and top-level await."""

import pathlib
import re
import subprocess
import sys

from harness import EARLY, PARTS, ROOT, WASM, KernelTest


class Values(KernelTest):
    def test_the_final_expression_is_the_value(self):
        for code, value, kind in (
            ("1+1", "2", "int"),
            ("x = 5\nx", "5", "int"),
            ("x = 5; x", "5", "int"),
            ("'a'", "'a'", "str"),
            ("def f():\n    return [\n1]\n\n# end\nf()\n\n# end", "[1]", "list"),
            ("(\n1\n)", "1", "int"),
            (
                "import collections\ncollections.OrderedDict",
                "<class 'collections.OrderedDict'>",
                "type",
            ),
            ("import decimal\ndecimal.Decimal(1)", "Decimal('1')", "decimal.Decimal"),
            ("class A:\n  def __repr__(self): return 'A!'\nA()", "A!", "A"),
            ("\ufeff1", "1", "int"),
            ("# -*- coding: latin-1 -*-\n'\xe9'", "'\xe9'", "str"),
            ("a = 1\r\na + 1\r\n", "2", "int"),
            ("a = 1\ra + 2", "3", "int"),
            ("\f1", "1", "int"),
            ("'\\ud800'", "'\\ud800'", "str"),
        ):
            with self.subTest(code):
                answer = self.run_ok(code)
                self.assertEqual((answer.value, answer.type), (value, kind))

    def test_statements_have_no_value(self):
        for code in ("", " ", "\n\n", "# only a comment", "x = 1", "None", "def f(): pass", "pass"):
            with self.subTest(code):
                self.assertIsNone(self.run_ok(code).value)

    def test_underscore_is_the_last_value_unless_assigned(self):
        self.run_ok("41")
        self.assert_value("_ + 1", "42")
        self.assert_value("None", None)
        self.assert_value("_", "42")
        self.run_ok("_ = 'mine'")
        self.run_ok("7")
        self.assert_value("_", "'mine'")

    def test_a_repr_that_raises_is_replaced_by_a_text(self):
        answer = self.run_ok("class A:\n  def __repr__(self): raise ValueError('no')\nA()")
        self.assertEqual(answer.value, "<unrepresentable A object: repr raised ValueError: no>")
        for body in ("raise SystemExit(1)", "return 5", "return repr(self)", "raise Odd()"):
            self.run_ok("class Odd(BaseException):\n  def __str__(self): 1/0\n")
            value = self.run_ok("class A:\n  def __repr__(self): %s\nA()" % body).value
            self.assertIn("unrepresentable A object", value)
        self.assert_usable()

    def test_a_repr_that_hangs_is_interrupted(self):
        answer = self.kernel.run(
            "class A:\n  def __repr__(self):\n    print('go')\n    while True: x = 5\nA()", 1
        )
        self.assertEqual(answer.completion, "interrupted")
        self.assertIn("while True: x = 5", answer.traceback)
        self.assert_usable()

    def test_a_repr_may_return_a_subclass_of_str(self):
        code = "class S(str):\n  def encode(self, *a): 1/0\n  def __len__(self): return -1\n"
        self.run_ok(code + "class M(type):\n  __module__ = property(lambda s: 1/0)\n")
        self.assert_value("class A:\n  def __repr__(s): return S('fine')\nA()", "fine")
        self.assertEqual(self.run_ok("class A(metaclass=M): pass\nA()").type, "A")

    def test_a_long_repr_is_truncated(self):
        answer = self.run_ok("'x' * 5_000_000")
        self.assertEqual(len(answer.value), 1 << 20)
        self.assertTrue(answer.value.endswith("[truncated: 5000002 characters in all]"))
        answer = self.run_ok("'\U0001f600' * 1_000_000")
        self.assertLessEqual(len(answer.value.encode()), 1 << 20)
        self.kernel.send(2, (1000).to_bytes(8, "little"))
        answer = self.run_ok("'x' * 5_000_000")
        self.assertEqual(len(answer.value), 500)

    def test_long_sources_have_values_and_tracebacks(self):
        filler = "x = 1\n" * 100_000
        self.assert_value(filler + "x + 1", "2")
        self.assert_value(filler + "x + 2\n\n  # end\n", "3")
        self.assert_value(filler + "if x:\n  y = 5", None)
        self.assert_value("y", "5")
        self.assert_value(filler + "z = '''\ny\n'''", None)
        self.assert_value("z", "'\\ny\\n'")
        trace = self.run_error(filler + "1/0", "ZeroDivisionError").traceback
        self.assertIn('", line 100001, in <module>\n    1/0', trace)
        self.run_error(filler + "1 +", "SyntaxError")
        self.assert_value("a = '" + "a" * 10_000_000 + "'\nlen(a)", "10000000")


class Main(KernelTest):
    def test_code_runs_as_main(self):
        self.assert_value("__name__", "'__main__'")
        self.assert_value("import sys; sys.modules['__main__'].__dict__ is globals()", "True")
        self.run_error("__file__", "NameError")
        self.assert_value("sorted(n for n in globals() if not n.startswith('_'))", "['sys']")
        self.run_ok("if __name__ == '__main__': print('yes')")
        self.assert_value("sys.argv", "['']")
        self.assert_value("sys.path[0]", "''")

    def test_the_kernel_is_not_in_sys_modules(self):
        answer = self.run_ok(
            "import sys\n[n for n, m in sys.modules.items() if n in"
            " ('loader', 'kernel', 'guard', 'wire', 'report', 'source_cache', 'show')]"
        )
        self.assertEqual(answer.value, "[]")
        if not WASM:  # A guest has no /proc.
            self.assert_value(
                "import os; sorted(map(int, os.listdir('/proc/self/fd')))[:4]", "[0, 1, 2, 3]"
            )

    def test_variables_stay(self):
        self.run_ok("x = 1\ndef f(): return x")
        self.run_ok("x = 2")
        self.assert_value("f()", "2")

    def test_classes_pickle_and_type_hints_resolve(self):
        self.run_ok("class A:\n  b: 'A' = None\nimport pickle, typing, dataclasses")
        self.assert_value("type(pickle.loads(pickle.dumps(A()))) is A", "True")
        self.assert_value("typing.get_type_hints(A)['b'] is A", "True")
        self.assert_value("@dataclasses.dataclass\nclass P:\n  x: int\nP(1)", "P(x=1)")

    def test_future_imports_apply_to_later_executions(self):
        self.run_ok("from __future__ import annotations")
        self.assert_value("def f(a: missing): pass\nf.__annotations__", "{'a': 'missing'}")
        self.assertEqual(self.start().run("1").value, "1")

    def test_modules_in_the_workdir_can_be_imported(self):
        pathlib.Path(self.workdir, "mine.py").write_text("x = 5")
        self.assert_value("import mine; mine.x", "5")

    def test_files_in_the_workdir_do_not_shadow_kernel_imports(self):
        shadows = (
            "traceback linecache asyncio ast tokenize re enum io signal marshal posix kernel "
            "guard wire loader source_cache report site os codecs encodings warnings types "
            "token"
        )
        for name in shadows.split():
            pathlib.Path(self.workdir, name + ".py").write_text("raise SystemError(__name__)")
        self.kernel = self.start()
        trace = self.run_error("def f(): pass\nf(1)[\n1]", "TypeError").traceback
        self.assertIn("    f(1)", trace)
        if sys.version_info >= (3, 11):
            self.assertIn("^", trace)
        self.run_ok("async def f(): return 1")
        self.assert_value("await f()", "1")

    def test_a_module_that_the_user_replaced_is_not_used(self):
        pathlib.Path(self.workdir, "traceback.py").write_text(
            "def format_exception(*a): return ['forged']"
        )
        pathlib.Path(self.workdir, "asyncio.py").write_text("x = 1")
        self.run_ok("import traceback, asyncio; asyncio.x")
        trace = self.run_error("\n1/0", "ZeroDivisionError").traceback
        self.assertIn("line 2, in <module>\n    1/0\nZeroDivisionError: division", trace)
        self.run_error("async def f(): pass\nawait f()", "RuntimeError")
        self.assert_value("1+1", "2")


class Parts(KernelTest):
    def test_the_agent_carries_every_part(self):
        rust = "".join(path.read_text() for path in (ROOT.parent / "src").rglob("*.rs"))
        carried = re.findall(r'\("(\w+)",\s*include_str!\("[./]+/python/\w+/\1\.py"\)\)', rust)
        self.assertEqual(carried, PARTS)

    def test_parts_are_loaded_when_they_are_needed(self):
        loaded = (
            "import gc, sys\nm = type(sys)\nsorted(it.__name__ for it in gc.unfreeze() or gc.get_objects()"
            " if type(it) is m and it.__name__ in %r)" % (PARTS,)
        )
        self.assert_value("1+1", "2")
        # Not a list, which has to be rendered.
        self.assert_value(loaded.replace("sorted(", "str(sorted(") + ")", repr(str(EARLY)))

    def test_the_kernel_loads_no_further_modules(self):
        arguments = ["-s", "-P", "-c"] if sys.version_info >= (3, 11) else ["-s", "-c"]
        script = "import sys; print(' '.join(sorted(sys.modules)))"
        bare = subprocess.run([sys.executable, *arguments, script], stdout=subprocess.PIPE)
        ours = self.run_ok(script).stdout.split()
        self.assertEqual(sorted({*ours} - {*bare.stdout.decode().split()}), [])


class Await(KernelTest):
    def test_code_can_await_at_top_level(self):
        self.run_ok("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x")
        self.assert_value("await f(1)", "1")
        self.assert_value("x = await f(2)\nx", "2")
        self.assert_value("x = await f(3)\nawait f(x + 1)", "4")
        self.assert_value(
            "async def g():\n    yield 1\n    yield 2\n[x async for x in g()]", "[1, 2]"
        )
        self.assertEqual(self.run_ok("async for x in g(): print(x)").stdout, "1\n2\n")
        self.assert_value("(await asyncio.gather(f(1), f(2)))", "[1, 2]")

    def test_a_session_has_one_event_loop_whose_tasks_go_on(self):
        self.run_ok("import asyncio\nasync def me(): return asyncio.get_running_loop()")
        self.run_ok("a = await me()")
        self.assert_value("a is await me()", "True")
        self.run_ok(
            "async def later():\n    await asyncio.sleep(0.01)\n    print('task done')\nt = asyncio.ensure_future(later())\nawait asyncio.sleep(0)"
        )
        self.assertEqual(self.run_ok("await t").stdout, "task done\n")
        self.run_ok("a.close()")
        self.assert_value("await asyncio.sleep(0, 5)", "5")
        self.assert_value("asyncio.run(asyncio.sleep(0, 6))", "6")
        self.assert_value("await asyncio.sleep(0, 7)", "7")

    def test_exceptions_around_await_are_reported(self):
        self.run_ok("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1/0")
        answer = self.run_error("await f()", "ZeroDivisionError")
        self.assertTrue(
            answer.traceback.startswith(
                'Traceback (most recent call last):\n  File "<execution 2>", line 1'
            ),
            answer,
        )
        self.assertEqual(answer.stderr, "")
        for code, kind in (
            ("raise SystemExit(2)", "SystemExit"),
            ("raise asyncio.CancelledError", "asyncio.exceptions.CancelledError"),
            ("raise GeneratorExit", "GeneratorExit"),
            ("await 5", "TypeError"),
            ("1 +", "SyntaxError"),
        ):
            answer = self.run_error("await asyncio.sleep(0)\n" + code, kind)
            self.assertEqual(answer.stderr, "")
        answer = self.kernel.run("await asyncio.sleep(0)\nraise KeyboardInterrupt")
        self.assertEqual((answer.completion, answer.stderr), ("interrupted", ""))
        self.run_error("def f(): await g()", "SyntaxError")
