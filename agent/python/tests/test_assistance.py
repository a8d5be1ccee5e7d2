"""Requests about code answer from the live kernel, and neither change nor run anything."""

import pathlib

from harness import KernelTest, needs


class Completion(KernelTest):
    def texts(self, code, cursor=None):
        answer = self.complete(code, cursor)
        self.assertEqual(answer["end"], len(code) if cursor is None else cursor)
        return [match["text"] for match in answer["matches"]]

    def test_completes_variables_keywords_and_builtins(self):
        self.run_ok("variable = 1\n_private = 2\ndef valley(): pass\nimport os as valve")
        answer = self.complete("x = va")
        found = [(match["text"], match["type"]) for match in answer["matches"]]
        expected = [("valley", "function"), ("valve", "module"), ("variable", "instance")]
        self.assertEqual(found, [*expected, ("vars", "function")])
        self.assertEqual((answer["start"], answer["end"]), (4, 6))
        self.assertEqual(self.texts("_pri"), ["_private"])
        self.assertEqual(self.texts("whi"), ["while"])
        self.assertEqual(self.texts("f(varia", 4), ["valley", "valve", "variable", "vars"])
        self.assertEqual(self.texts("a\nvaria"), ["variable"])
        self.assertEqual(self.texts("# varia"), [])
        self.assertEqual(self.texts("nothing_so"), [])
        self.assertEqual(self.texts("\xe9\u20ac varia"), ["variable"])

    def test_completes_attributes_without_running_properties(self):
        self.run_ok(
            "class A:\n  x = 1\n  def __init__(self): self.own = self\n"
            "  @property\n  def danger(self): print('ran')\n"
            "  def __getattr__(self, name): print('ran')\na = A()"
        )
        self.assertEqual(self.texts("a."), ["danger", "own", "x"])
        self.assertEqual(self.texts("a.own.own.o"), ["own"])
        self.assertEqual(self.texts("a.danger."), [])
        self.assertEqual(self.texts("a.missing."), [])
        self.assertEqual(self.texts("f(a).o"), [])
        self.assertIn("__init__", self.texts("a.__in"))
        self.assertEqual(self.texts("A.dan"), ["danger"])
        self.run_ok("import os.path")
        self.assertEqual(self.texts("os.path.isdi"), ["isdir"])
        self.assertEqual(self.run_ok("1").stdout, "")

    def test_completes_dictionary_keys_and_paths(self):
        self.run_ok("d = {'key one': 1, \"it's\": 2, 5: 3}\nclass E:\n  d = d\ne = E()")
        self.assertEqual(self.texts("d['k"), ["key one"])
        self.assertEqual(self.texts('e.d["'), ["it's", "key one"])
        self.assertEqual(self.texts("d["), ['"it\'s"', "'key one'", "5"])
        pathlib.Path(self.workdir, "data").mkdir()
        pathlib.Path(self.workdir, "data/file.csv").write_text("")
        self.assertEqual(self.texts("open('da"), ["data/"])
        answer = self.complete("open('data/f")
        self.assertEqual(answer["matches"], [{"text": "file.csv", "type": "file"}])
        self.assertEqual(answer["start"], 11)
        self.assertEqual(self.texts("open('/no/such/"), [])
        self.assertEqual(self.texts("'''da"), ["data/"])

    def test_completes_modules_without_importing_them(self):
        pathlib.Path(self.workdir, "my_module.py").write_text("print('ran')")
        package = pathlib.Path(self.workdir, "my_package")
        package.mkdir()
        (package / "__init__.py").write_text("print('ran')")
        (package / "inner.py").write_text("print('ran')")
        self.assertEqual(self.texts("import my_m"), ["my_module"])
        self.assertEqual(self.texts("import os, my_p"), ["my_package"])
        self.assertEqual(self.texts("from my_package import "), ["inner"])
        self.assertEqual(self.texts("import my_package.i"), ["inner"])
        self.assertIn("json", self.texts("from js"))
        self.assertEqual(self.texts("from collections import OrderedD"), ["OrderedDict"])
        self.assertEqual(self.run_ok("'my_module' in __import__('sys').modules").stdout, "")

    def test_completion_is_bounded_in_number_and_time(self):
        self.run_ok("for i in range(2000): globals()['many_%d' % i] = i")
        self.assertEqual(len(self.texts("many_")), 500)
        self.run_ok("class Slow:\n  def __dir__(self):\n    while True: pass\ns = Slow()")
        self.assertEqual(self.texts("s."), [])
        self.run_ok("class Bad:\n  def __dir__(self): return ['good', 'x' * 1000]\nb = Bad()")
        self.assertEqual(self.texts("b."), ["good"])
        self.run_ok("Bad.__dir__ = lambda self: [5, 'good']; Bad.found = 1")
        self.assertEqual(self.texts("b."), ["found"])
        self.run_ok("class Raises:\n  def __dir__(self): raise SystemExit\nr = Raises()")
        self.assertEqual(self.texts("r."), [])
        for code in ("", "'", "\\", "]", "a[", "..", "a..b", "1.", "from", "from . import ", "\0"):
            self.texts(code)
        self.assert_usable()

    def test_no_request_changes_the_session(self):
        self.run_ok("import os, sys\nx = 1\n41")
        self.run_ok("42")
        before = self.run_ok("sorted({*globals(), '___'}), len(Out), _, __").value
        for code in ("x", "os.pa", "import o", "d['", "open('"):
            self.complete(code)
            self.inspect(code)
            self.is_complete("!%s" % code)
        after = self.run_ok("sorted(globals()), len(Out) - 1, __, ___").value
        self.assertEqual(after, before)


class Inspection(KernelTest):
    def test_inspects_functions_classes_and_values(self):
        self.run_ok(
            "def f(a, b: int = 2) -> str:\n    'Says something.'\n    return str(a)\n"
            "class C:\n    'A class.'\n    def __init__(self, x): self.x = x\n"
            "    def method(self, y): 'Does it.'\nc = C([1, 2])"
        )
        answer = self.inspect("f")
        self.assertEqual(
            {name: answer[name] for name in ("found", "name", "type", "signature", "docstring")},
            {
                "found": True,
                "name": "f",
                "type": "function",
                "signature": "(a, b: int = 2) -> str",
                "docstring": "Says something.",
            },
        )
        self.assertTrue(answer["source"].startswith("def f(a, b: int = 2)"))
        answer = self.inspect("C")
        self.assertEqual((answer["type"], answer["signature"]), ("type", "(x)"))
        self.assertIn("class C:", answer["source"])
        answer = self.inspect("c.method")
        self.assertEqual((answer["signature"], answer["docstring"]), ("(y)", "Does it."))
        answer = self.inspect("c.x")
        self.assertEqual((answer["type"], answer["repr"]), ("list", "[1, 2]"))
        self.assertIsNone(answer["source"])

    def test_inspects_the_name_at_the_cursor_or_the_open_call(self):
        self.run_ok("import os.path\nvalue = 5")
        self.assertEqual(self.inspect("os.path.join(value)", 9)["name"], "os.path.join")
        self.assertEqual(self.inspect("os.path.join(value)", 4)["name"], "os.path")
        self.assertEqual(self.inspect("os.path.join(value)", 14)["name"], "value")
        self.assertEqual(self.inspect("os.path.join('a', ", None)["name"], "os.path.join")
        self.assertEqual(self.inspect("f(g(1), [2], ")["name"], "f")
        for code in ("", "   ", "missing", "1 + ", "[", "value.missing", "'"):
            self.assertFalse(self.inspect(code)["found"], code)

    def test_inspects_objects_that_raise_hang_or_are_huge(self):
        self.run_ok(
            "class A:\n  def __repr__(self): raise SystemExit\n  __doc__ = property(lambda s: 1/0)\n"
            "  def __call__(self): pass\n  __signature__ = 5\na = A()"
        )
        answer = self.inspect("a")
        self.assertTrue(answer["found"])
        self.assertIn("unrepresentable", answer["repr"])
        self.run_ok("class B:\n  def __repr__(self):\n    while True: pass\nb = B()")
        self.assertIn("took over", self.inspect("b")["repr"])
        self.run_ok("long = 'x' * 10_000_000")
        self.assertEqual(len(self.inspect("long")["repr"]), 1000)
        self.assert_usable()

    def test_a_request_can_be_interrupted(self):
        self.run_ok(
            "class B:\n  def __dir__(self):\n    print('go')\n    while True: pass\nb = B()"
        )
        answer = self.kernel.ask(3, (2).to_bytes(4, "little"), "b.", 1)
        self.assertIn(answer.completion, ("interrupted", "ok"))
        self.assert_usable()


class IsComplete(KernelTest):
    def assert_answers(self, answers):
        for code, answer in answers.items():
            with self.subTest(code):
                status, _, indent = answer.partition(" ")
                self.assertEqual(self.is_complete(code), (status, " " * int(indent or 0)))

    def test_code_that_can_be_executed_is_complete(self):
        for code in (
            "",
            "  \n",
            "# comment",
            "x = 1",
            "\ufeffx = 1",
            "print('a')  # comment:",
            "f(1,\n  2)",
            "'''a\nb'''",
            "if x: pass",
            "if x:\n    y\nelse: z",
            "if x:\n    y\n",
            "if x:\r\n    y\r\n",
            "def f():\n    return 1\n    ",
            "x = 1 + \\\n    2",
            "x = '''\n  '''",
            "a = 1\nb = 2",
            "await f()",
            "async with a as b: pass",
            "x is 1 or '\\d'",
        ):
            with self.subTest(code):
                self.assertEqual(self.is_complete(code), ("complete", ""))
        self.assertEqual(self.run_ok("1").stderr, "", "no warnings about it")

    def test_unfinished_code_comes_with_the_indentation_of_its_next_line(self):
        self.assert_answers(
            {
                "if x:": "incomplete 4",
                "if x:  # comment": "incomplete 4",
                "if x:\n": "incomplete 4",
                "f(": "incomplete 4",
                "f(1,": "incomplete",
                "x = [1,\n": "incomplete",
                "'''if:": "incomplete",
                "def f():\n    '''Says": "incomplete",
                'rb"""x\n"': "incomplete",
                "x = 1 + \\": "incomplete",
                "@decorator": "incomplete",
                "try:": "incomplete 4",
                "try:\n    x": "incomplete 4",
                "try:\n    x\nexcept E:": "incomplete 4",
                "class A:\n    def f(self,\n          x):": "incomplete 8",
                "for a in b:\n  if c:": "incomplete 6",
                "while True:\n    ": "incomplete 4",
                "if x:\n    y\nelif z:": "incomplete 4",
            }
        )

    def test_a_block_goes_on_until_an_empty_line(self):
        self.assert_answers(
            {
                "if x:\n    y": "incomplete 4",
                "x\nif x:\n  for y in z:\n    y  # done": "incomplete 4",
                "if x:\n  y\n# comment": "incomplete 2",
                "def f():\n    return 1": "incomplete",
                "def f():\n    return f(1,\n             2)": "incomplete",
                "while x:\n    if y:\n        break": "incomplete 4",
                "class A:\n    def f(self): return 1": "incomplete 4",
                "def f(a,\n      b): return a": "complete",
                "if x:\n    a; pass": "incomplete",
                "try:\n    x\nexcept E:\n    raise": "incomplete",
                "with a:\n    passed": "incomplete 4",
                "if x:\n    y\n    ": "complete",
            }
        )

    def test_code_that_nothing_completes_is_invalid(self):
        for code in (")", "x = 'unterminated", "x = = 1\nf(", "  x", "else:", "if 1:\n  a\n b"):
            with self.subTest(code):
                self.assertEqual(self.is_complete(code), ("invalid", ""))

    def test_ipythons_syntax_is_translated_as_for_an_execution(self):
        self.assert_answers(
            {
                "!ls (": "complete",
                "files = 1\n!echo 'it\n": "complete",
                "%matplotlib inline\nx": "complete",
                "len?": "complete",
                "if x:\n    !ls": "incomplete 4",
                "for x in y:\n    %time f(x)\n    if z:": "incomplete 8",
                "%time x = (": "complete",
                "%time x = \\": "incomplete",
                "x # a comment \\": "complete",
                "!echo \\": "incomplete",
                "%nonsense": "complete",
                "!ls\n)": "invalid",
                "%%bash": "incomplete",
                "%%bash\nfor f in $(ls": "incomplete",
                "%%bash\nfor f in $(ls\n": "complete",
                "%%time\nfor x in y:": "incomplete",
                "%%time\nf(x)": "incomplete",
                "%%time\nf(x)\n": "complete",
                "%%time\nf(\n": "complete",
                "%%nonsense\nx": "incomplete",
            }
        )
        self.run_error("__vivarium_line__", "NameError")

    def test_the_sessions_future_statements_count(self):
        self.assertEqual(self.is_complete("1 <> 2"), ("invalid", ""))
        self.run_ok("from __future__ import barry_as_FLUFL")
        self.assertEqual(self.is_complete("1 <> 2"), ("complete", ""))

    def test_hostile_code_is_answered_and_the_kernel_stays(self):
        for code in (
            "x = 1\0",
            "(" * 100_000,
            "[" * 200 + "]" * 200,
            "(" * 150,
            "-" * 200_000 + "1",
            "x" + "()" * 100_000,
            "x" + ".a" * 100_000,
            "lambda: " * 20_000,
            "".join(" " * depth + "if x:\n" for depth in range(150)),
            "1" * 200_000,
            "if x:\n" * 20_000,
            "0;" * 120_000,
            "if x:\n" + " 0\n" * 60_000 + " 0",
            "!x\n" * 60_000,
            "%time " * 40_000,
            "f'{" * 50_000,
            "'\\ud800'",
            "\\N{",
            "x = '''" + "\\" * 200_000,
        ):
            with self.subTest(code[:20]):
                answer = self.kernel.ask(6, bytes(4), code)
                self.assertIn(answer.completion, ("ok", "error"), answer)
        self.assertEqual(self.is_complete("(" * 1_000_000), ("complete", ""), "never compiled")
        self.assert_usable()

    def test_user_code_can_not_break_the_answer(self):
        self.run_ok(
            "import ast\nfor kind in (ast.Expr, ast.AST): kind.body = kind.orelse = [ast.Expr()]"
        )
        self.assertEqual(self.is_complete("if x:\n    y"), ("incomplete", "    "))
        self.run_ok("import codeop, sys\ncodeop.CommandCompiler = None")
        self.assertEqual(self.is_complete("f("), ("invalid", ""))
        self.run_ok(
            "def hook(name, args):\n    if name == 'compile' and 'is_complete' in str(args): 1 / 0\n"
            "sys.addaudithook(hook)"
        )
        self.assertEqual(self.is_complete("x"), ("invalid", ""))
        self.assert_usable()


@needs("pandas", "numpy")
class Frames(KernelTest):
    def test_completes_columns_and_fields(self):
        self.run_ok("import pandas as pd\ndf = pd.DataFrame({'alpha': [1], 'beta gamma': [2]})")
        matches = self.complete("df['")["matches"]
        self.assertEqual([match["text"] for match in matches], ["alpha", "beta gamma"])
        matches = self.complete("df.al")["matches"]
        self.assertIn({"text": "alpha", "type": "instance"}, matches)
        self.assertIn("(n: int = 5)", self.inspect("df.head")["signature"].replace("'int'", "int"))
        self.run_ok("import numpy as np\na = np.zeros(2, dtype=[('first', int)])")
        self.assertEqual(self.complete("a['f")["matches"][0]["text"], "first")
