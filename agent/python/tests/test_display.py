"""Values and displays have rich representations by IPython's conventions, without IPython."""

from harness import KernelTest

PNG = b"\x89PNG"


class Values(KernelTest):
    def test_a_value_has_every_representation_of_its_methods(self):
        self.run_ok(
            "class A:\n"
            "  def __repr__(self): return 'A!'\n"
            "  def _repr_html_(self): return '<b>\xe9'\n"
            "  def _repr_markdown_(self): return '# a'\n"
            "  def _repr_svg_(self): return '<svg>'\n"
            "  def _repr_png_(self): return b'\\x89PNG'\n"
            "  def _repr_jpeg_(self): return 'iVBORw=='\n"
            "  def _repr_pdf_(self): return bytearray(b'%PDF')\n"
            "  def _repr_latex_(self): return '$x$', {'meta': 1}\n"
            "  def _repr_json_(self): return {'a': [1, None]}\n"
            "  def _repr_javascript_(self): return 'f()'"
        )
        answer = self.run_ok("A()")
        self.assertEqual((answer.value, answer.type), ("A!", "A"))
        expected = {
            "text/html": "<b>\xe9".encode(),
            "text/markdown": b"# a",
            "image/svg+xml": b"<svg>",
            "image/png": PNG,
            "image/jpeg": PNG,
            "application/pdf": b"%PDF",
            "text/latex": b"$x$",
            "application/json": b'{"a": [1, null]}',
            "application/javascript": b"f()",
        }
        self.assertEqual(answer.mime, expected)
        self.assertEqual(
            self.shown("display(A())"), [("display", "", {"text/plain": b"A!", **expected})]
        )

    def test_a_value_can_return_a_mime_bundle(self):
        self.run_ok(
            "class B:\n"
            "  def __repr__(self): return 'B!'\n"
            "  def _repr_mimebundle_(self, include=None, exclude=None):\n"
            "    return {'text/html': 'bundled', 'application/x+json': [1], 'text/plain': 'told'}\n"
            "  def _repr_html_(self): return 'own'\n"
            "  def _repr_markdown_(self): return 'also'"
        )
        forms = {
            "text/html": b"bundled",
            "application/x+json": b"[1]",
            "text/plain": b"told",
            "text/markdown": b"also",
        }
        answer = self.run_ok("B()")
        self.assertEqual((answer.value, answer.mime), ("B!", forms))
        self.run_ok("B._repr_mimebundle_ = lambda self, **options: ({'text/html': 'pair'}, {})")
        self.assertEqual(self.run_ok("B()").mime["text/html"], b"pair")
        # One that does not take the convention's arguments.
        self.run_ok("B._repr_mimebundle_ = lambda self: {'text/html': 'never'}")
        self.assertEqual(self.run_ok("B()").mime["text/html"], b"own")

    def test_a_representation_of_the_wrong_kind_is_left_out(self):
        for body in (
            "raise ValueError",
            "raise SystemExit(3)",
            "raise GeneratorExit",
            "return None",
            "return 5",
            "return b'\\xff'",
            "return self._repr_html_()",
            "import sys; sys.exit()",
            "return type('S', (str,), {'encode': None})",
        ):
            with self.subTest(body):
                self.run_ok(
                    "class A:\n  def _repr_html_(self): %s\n  def _repr_latex_(self): return 'x'"
                    % body
                )
                self.assertEqual(self.run_ok("A()").mime, {"text/latex": b"x"})
        self.run_ok("class A:\n  def _repr_json_(self): return {'a': float('nan')}")
        self.assertEqual(self.run_ok("A()").mime, {})
        self.run_ok("class A:\n  def _repr_png_(self): return 'not base64!'")
        self.assertEqual(self.run_ok("A()").mime, {})
        self.run_ok("class A:\n  def _repr_mimebundle_(self, **o): return {5: 'x', '': 'y'}")
        self.assertEqual(self.run_ok("A()").mime, {})
        self.run_ok(
            "class A:\n  def _repr_mimebundle_(self, **o):\n"
            "    return {'a/%d' % i: 'x' for i in range(1000)}"
        )
        self.assertEqual(len(self.run_ok("A()").mime), 60)
        self.assert_usable()

    def test_methods_come_from_classes_and_instances_only(self):
        self.run_ok("class A:\n  def _repr_html_(self): return 'instance of A'")
        self.assertEqual(self.run_ok("A").mime, {})
        self.assertEqual(self.run_ok("class B(A): pass\nB()").mime["text/html"], b"instance of A")
        self.run_ok("class Any:\n  def __getattr__(self, name): return lambda *a, **k: 'forged'")
        self.assertEqual(self.run_ok("Any()").mime, {})
        self.run_ok("class M(type):\n  def _repr_html_(cls): return 'of a class'")
        self.assertEqual(self.run_ok("class C(metaclass=M): pass\nC").mime, {})
        self.run_ok("a = Any(); a._repr_html_ = lambda: 'its own'")
        self.assertEqual(self.run_ok("a").mime, {"text/html": b"its own"})
        self.run_ok("class D(A):\n  _repr_html_ = None")
        self.assertEqual(self.run_ok("D()").mime, {})
        self.run_ok("class P:\n  _repr_html_ = property(lambda self: 1/0)")
        self.assertEqual(self.run_ok("P()").mime, {})

    def test_objects_can_display_themselves(self):
        self.run_ok(
            "class A:\n  def __repr__(self): return 'A!'\n  def _repr_html_(self): return 'never'\n"
            "  def _ipython_display_(self): display('inner')"
        )
        answer = self.run_ok("A()")
        self.assertEqual((answer.value, answer.mime), ("A!", {}))
        inner = ("display", "", {"text/plain": b"'inner'"})
        self.assertEqual([tuple(shown[:3]) for shown in answer.displays], [inner])
        self.assertEqual(self.shown("display(A())"), [inner])
        self.run_ok("def refuse(self): raise NotImplementedError\nA._ipython_display_ = refuse")
        self.assertEqual(self.run_ok("A()").mime, {"text/html": b"never"})


class Display(KernelTest):
    def test_displays_and_output_stay_in_order(self):
        answer = self.run_ok(
            "import os, sys\nprint('one', end='')\ndisplay(1)\nos.write(1, b'two')\ndisplay(2)\n"
            "sys.stdout.write('three')\ndisplay(3, 4)"
        )
        self.assertEqual(
            [(shown.mime["text/plain"], shown.stdout) for shown in answer.displays],
            [(b"1", "one"), (b"2", "onetwo"), (b"3", "onetwothree"), (b"4", "onetwothree")],
        )
        answer = self.run_ok("def f():\n  display('seen')\n  1/0\ntry: f()\nexcept Exception: pass")
        self.assertEqual(len(answer.displays), 1)

    def test_a_display_can_be_updated_by_its_id(self):
        shown = self.shown(
            "h = display('a', display_id=True)\nh.update('b')\nh.display('c')\n"
            "update_display('d', display_id=h.display_id)\n"
            "display('e', display_id='mine')\nassert display('f') is None"
        )
        kinds = ["display", "update", "display", "update", "display", "display"]
        self.assertEqual([kind for kind, _, _ in shown], kinds)
        first = shown[0][1]
        self.assertEqual([name for _, name, _ in shown], [first] * 4 + ["mine", ""])
        self.assertEqual(len(first), 32)
        self.run_error("update_display('a')", "TypeError")
        self.run_error("display(1, update=True)", "TypeError")

    def test_clear_output_clears_at_once_or_with_the_next_display(self):
        shown = self.shown("display(1)\nclear_output()\ndisplay(2)")
        self.assertEqual([kind for kind, _, _ in shown], ["display", "clear", "display"])
        self.assertEqual(shown[1][2], {})
        shown = self.shown("display(1)\nclear_output(wait=True)\nprint()\ndisplay(2)")
        self.assertEqual([kind for kind, _, _ in shown], ["display", "clear", "display"])
        self.assertEqual(
            [k for k, _, _ in self.shown("display(1, clear=True)")], ["clear", "display"]
        )
        self.assertEqual(self.shown("display\nclear_output(wait=True)"), [])
        self.assertEqual([kind for kind, _, _ in self.shown("display(3)")], ["display"])

    def test_displays_raw_bundles_and_chosen_mime_types(self):
        self.assertEqual(
            self.shown("display({'text/html': '<i>', 'a/b': 5}, raw=True)"),
            [("display", "", {"text/html": b"<i>"})],
        )
        self.run_ok(
            "class A:\n  def _repr_html_(self): return 'h'\n  def _repr_latex_(self): return 'l'"
        )
        forms = self.shown("display(A(), include=['text/html'])")[0][2]
        self.assertEqual(forms, {"text/html": b"h"})
        forms = self.shown("display(A(), exclude=['text/html', 'text/plain'])")[0][2]
        self.assertEqual(forms, {"text/latex": b"l"})

    def test_variables_of_the_same_name_come_first(self):
        self.run_ok("display = print")
        self.assertEqual(self.run_ok("display('mine')").stdout, "mine\n")
        self.run_ok("del display")
        self.assertEqual(len(self.shown("display(1)")), 1)
        code = "sorted(n for n in globals() if n[0] != '_')"
        self.assert_value(code, "[]")

    def test_a_thread_can_display(self):
        code = (
            "import threading\ndef show(i):\n  for j in range(200): display('%d-%d' % (i, j))\n"
            "threads = [threading.Thread(target=show, args=(i,)) for i in range(4)]\n"
            "for t in threads: t.start()\nfor j in range(200): display('main')\n"
            "for t in threads: t.join()"
        )
        self.assertEqual(len(self.shown(code)), 1000)
        # Beyond its execution, a thread's text is printed.
        code = (
            "gate = threading.Event()\ndef late():\n  gate.wait()\n  display('late')\n"
            "t = threading.Thread(target=late); t.start()"
        )
        self.run_ok(code)
        self.assertEqual(len(self.shown("gate.set(); t.join()")), 1)

    def test_a_forked_child_prints_its_displays(self):
        for fork in ("os.fork()", "ctypes.CDLL(None).fork()"):
            answer = self.run_ok(
                "import os, ctypes\npid = %s\nif pid == 0:\n  display('child')\n"
                "  display({'image/png': b'12'}, raw=True)\n  import sys; sys.stdout.flush()\n"
                "  os._exit(0)\n_ = os.waitpid(pid, 0)\ndisplay('parent')" % fork
            )
            self.assertEqual(answer.stdout, "'child'\n<image/png, 2 bytes>\n")
            self.assertEqual([d.mime for d in answer.displays], [{"text/plain": b"'parent'"}])
        self.assert_usable()

    def test_signal_handlers_and_finalizers_can_display(self):
        self.run_ok(
            "import signal\ndef handler(*a): display('tick')\nsignal.signal(signal.SIGALRM, handler)\n"
            "class D:\n  def __del__(self): display('gone')"
        )
        answer = self.run_ok(
            "signal.setitimer(signal.ITIMER_REAL, 0.001, 0.005)\n"
            "for i in range(2000): display(i)\nsignal.setitimer(signal.ITIMER_REAL, 0)\n"
            "for i in range(100): display(D())"
        )
        texts = [shown.mime["text/plain"] for shown in answer.displays]
        numbers = [text for text in texts if text.isdigit()]
        self.assertEqual(numbers, [b"%d" % i for i in range(2000)])
        self.assertEqual(texts.count(b"'gone'"), 100)
        self.assert_usable()


class Bounds(KernelTest):
    def test_what_does_not_fit_is_left_out_with_a_note(self):
        self.kernel.send(2, (100_000).to_bytes(8, "little"))
        answer = self.run_ok(
            "class A:\n  def _repr_html_(self): return 'x' * 200_000\n"
            "  def _repr_latex_(self): return 'y'\nA()"
        )
        self.assertEqual(answer.mime, {"text/latex": b"y"})
        self.assertIn("the text/html of a A object (200000 bytes) is left out", answer.stderr)
        answer = self.run_ok(
            "for i in range(20): display({'text/html': 'x' * 10_000}, raw=True)\ndisplay('small')"
        )
        self.assertEqual(len(answer.displays), 10)
        self.assertEqual(answer.stderr.count("is left out"), 1)
        # Each execution has its own.
        self.assertEqual(len(self.shown("display({'text/html': 'x' * 90_000}, raw=True)")), 1)

    def test_the_number_of_small_displays_is_bounded(self):
        self.kernel.send(2, (100_000).to_bytes(8, "little"))
        answer = self.run_ok("for i in range(1000): clear_output()")
        self.assertEqual(len(answer.displays), 100_000 // 256)

    def test_a_display_larger_than_a_frame_is_left_out(self):
        self.kernel.send(2, (2**64 - 1).to_bytes(8, "little"))
        forms = self.shown("display({'a/b': 'x' * (40 << 20)}, raw=True)")[0][2]
        self.assertEqual(len(forms["a/b"]), 40 << 20)
        self.assertEqual(self.shown("display({'a/b': 'x' * (50 << 20)}, raw=True)"), [])
        self.assert_usable()

    def test_long_texts_are_truncated(self):
        forms = self.shown("display('x' * 3_000_000)")[0][2]
        self.assertEqual(len(forms["text/plain"]), 1 << 20)
        forms = self.shown("display({'text/html': '\\ud800'}, raw=True)")[0][2]
        self.assertEqual(forms["text/html"], b"\\ud800")


class Hostile(KernelTest):
    def test_a_method_may_fork(self):
        self.run_ok("import os\nclass A:\n  def _repr_html_(self): os.fork(); return 'x'")
        answer = self.run_ok("A()")
        self.assertEqual(answer.mime, {"text/html": b"x"})
        self.assertEqual(self.shown("display(A())")[0][2]["text/html"], b"x")
        # What a child prints, it may print after the execution.
        self.run_ok("try:\n  while True: os.wait()\nexcept ChildProcessError: pass")
        self.assert_usable()

    def test_a_method_that_exits_is_left_out(self):
        self.run_ok("import os\nclass A:\n  def _repr_html_(self): os._exit(9)")
        self.assertEqual(self.kernel.run("A()").exited, 9)

    def test_methods_that_tamper_leave_the_session_usable(self):
        for body in (
            "import sys; sys.settrace(lambda *a: 1/0)",
            "import sys; sys.stdout.close()",
            "import sys; del sys.stdout, sys.stderr",
            "import sys; sys.modules.clear()",
            "import builtins; vars(builtins).clear()",
            "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
            "import sys; sys.setrecursionlimit(40)",
            "import gc; gc.collect(); display(display(self))",
            "import threading; threading.Thread(target=display, args=(1,)).start()",
        ):
            with self.subTest(body):
                self.kernel = self.start()
                answer = self.kernel.run("class A:\n  def _repr_html_(self): %s\nA()" % body)
                self.assertIn(answer.completion, ("ok", "error"), answer)
                self.assert_value("x = 1\nx", "1")

    def test_an_acknowledgement_without_a_display_is_ignored(self):
        self.kernel.send(5, bytes(8))
        self.assert_usable()
        self.assertEqual(len(self.shown("display(1); display(2)")), 2)

    def test_a_display_can_be_interrupted(self):
        self.run_ok("class A:\n  def _repr_html_(self):\n    print('go')\n    while True: x = 5")
        for code in ("A()", "display(A())", "print('go')\nwhile True: display(1)"):
            answer = self.kernel.run(code, 1)
            self.assertEqual(answer.completion, "interrupted")
            self.assertNotIn("vivarium", answer.traceback)
        self.assert_usable()

    def test_many_interrupts_between_displays_leave_the_session_usable(self):
        for _ in range(20):
            answer = self.kernel.run("print('go')\nfor i in range(100000): display(i)", 1)
            self.assertEqual(answer.completion, "interrupted", answer.completion)
        self.assert_usable()

    def test_tracebacks_show_no_kernel_frames(self):
        self.run_ok("class S:\n  def __str__(self): 1/0")
        answer = self.run_error("display(1, display_id=S())", "ZeroDivisionError")
        self.assertNotIn("vivarium", answer.traceback)


class History(KernelTest):
    def test_underscores_are_the_last_three_values(self):
        for value in "123":
            self.run_ok(value)
        self.assert_value("_, __, ___", "(3, 2, 1)")
        self.run_ok("__ = 'mine'\n'next'")
        self.assert_value("_, __", "('next', 'mine')")

    def test_in_and_out_hold_sources_and_values(self):
        self.assert_value("In", "['', 'In']")
        self.run_ok("40 + 2")
        self.run_ok("x = 1")
        self.assert_value("Out[2], In[2], 3 in Out", "(42, '40 + 2', False)")
        self.assert_value("len(In) - 1", "5")
        self.run_ok("In = Out = 'mine'")
        self.assert_value("In, Out", "('mine', 'mine')")
        self.run_ok("del In, Out\nIn.clear(); Out.clear()")
        self.assert_value("In[-1]", "'In[-1]'")

    def test_history_is_bounded(self):
        for number in range(1010):
            self.run_ok("5" if number < 110 else "x = 1")
        self.assert_value("sum(1 for it in In if it)", "1000")
        self.assert_value("len(Out)", "100")

    def test_only_the_last_large_values_are_kept(self):
        self.run_ok("class A(bytes):\n  def __del__(self): print('freed')")
        for _ in range(3):
            self.assertEqual(self.run_ok("A(2_000_000)").stdout, "")
        for _ in range(2):
            self.assertEqual(self.run_ok("A(2_000_000)").stdout, "freed\n")
        self.run_ok("class B:\n  def __sizeof__(self): print('asked'); return 0")
        self.assertNotIn("asked", self.run_ok("B()").stdout)

    def test_out_does_not_contain_itself(self):
        self.run_ok("1")
        self.assertEqual(self.run_ok("Out").value, "{1: 1}")
        self.assertEqual(self.run_ok("Out").value, "{1: 1}")


class Abridged(KernelTest):
    def test_long_containers_are_abridged_and_others_are_not(self):
        for code, end in (
            ("list(range(1001))", ", 999, ...]"),
            ("tuple(range(5000))", ", 999, ...)"),
            ("{i: i for i in range(5000)}", ", 999: 999, ...}"),
            ("{i: i for i in range(5000)}.keys()", ", 999, ...])"),
            ("[[0] * 1001]", ", 0, ...]]"),
        ):
            value = self.run_ok(code).value
            self.assertEqual(value[-len(end) :], end)
            self.assertLess(len(value), 20_000)
        for code in ("list(range(1000))", "[[0] * 1000] * 3", "(1,)", "set()", "{'a': [(), {}]}"):
            self.assertEqual(self.run_ok(code).value, repr(eval(code)))

    def test_an_execution_may_have_other_limits(self):
        all_of_it = 0xFFFFFFFF
        for code, limits, value in (
            ("list(range(9))", (3, all_of_it, all_of_it), "[0, 1, 2, ...]"),
            ("{1: {2: {3}}}", (3, all_of_it, 2), "{1: {2: {...}}}"),
            ("([],)", (3, all_of_it, 1), "([],)"),
            ("({1: 2}.items(), 1)", (3, all_of_it, 1), "(..., 1)"),
            ("list(range(2000))", (2000, all_of_it, all_of_it), repr(list(range(2000)))),
        ):
            self.assertEqual(self.kernel.run(code, repr_limits=limits).value, value, code)
        short = (1000, 100, all_of_it)
        lying = "class Text(str):\n  def __len__(self): return 0\n  def __getitem__(self, at): return ''\n"
        lying += "class A:\n  def __repr__(self): return Text('x' * 10_000)\n"
        for code in ("'x' * 10_000", "['x' * 10_000]", lying + "A()", lying + "display(A())"):
            answer = self.kernel.run(code, repr_limits=short)
            value = answer.value or dict(answer.displays[0].mime)["text/plain"].decode()
            self.assertEqual(len(value), 100)
            self.assertRegex(value, r"xxx \[truncated: 100\d\d characters in all\]$")
        self.assertEqual(len(self.run_ok("'x' * 10_000").value), 10_002)

    def test_containers_that_hold_themselves_are_shown_as_python_shows_them(self):
        self.run_ok("a = [1]\na.append(a)\nd = {'a': a}\nd['d'] = d")
        self.assertEqual(self.run_ok("a").value, "[1, [...]]")
        self.assertEqual(self.run_ok("d").value, "{'a': [1, [...]], 'd': {...}}")
        self.run_ok("deep = []\nfor i in range(100_000): deep = [deep]")
        self.assertIn("RecursionError", self.run_ok("deep").value)
        self.run_ok("while deep: deep = deep.pop()")
