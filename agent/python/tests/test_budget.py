"""Rendering that hangs costs a representation, not the execution or the session."""

from harness import KernelTest


class Budget(KernelTest):
    def setUp(self):
        super().setUp()
        self.set_budget(1)

    def test_a_repr_that_hangs_is_replaced_by_a_text(self):
        for body in ("while True: pass", "import time; time.sleep(100)"):
            answer = self.run_ok("class A:\n  def __repr__(self):\n    %s\nA()" % body)
            self.assertEqual(answer.value, "<unrepresentable A object: repr took over 1 s>")
            answer = self.run_ok("[A()]")
            self.assertEqual(answer.value, "<unrepresentable list object: repr took over 1 s>")
            forms = self.shown("display(A()); display(2)")
            self.assertIn(b"took over", forms[0][2]["text/plain"])
            self.assertEqual(forms[1][2], {"text/plain": b"2"})
        self.assert_usable()

    def test_a_representation_that_hangs_is_left_out(self):
        self.run_ok(
            "class A:\n  def __repr__(self): return 'A!'\n  def _repr_html_(self): return 'h'\n"
            "  def _repr_markdown_(self):\n    while True: pass"
        )
        answer = self.run_ok("A()")
        self.assertEqual((answer.value, answer.mime), ("A!", {"text/html": b"h"}))
        self.assertIn("rendering a A object took over 1 s: forms are missing", answer.stderr)
        self.run_ok("class A:\n  def _ipython_display_(self):\n    while True: pass")
        self.assertIn("took over", self.run_ok("A()").value)
        self.assert_usable()

    def test_a_repr_that_catches_the_timeout_is_stopped_again(self):
        code = (
            "class A:\n  def __repr__(self):\n    for i in range(3):\n      try:\n"
            "        import time; time.sleep(100)\n      except BaseException: print('no')\n"
            "    return 'at last'\n  def _repr_html_(self): return 'too late'\nA()"
        )
        answer = self.run_ok(code)
        self.assertEqual((answer.stdout, answer.mime), ("no\n" * 3, {}))
        self.assertEqual(answer.value, "at last")
        self.assert_usable()

    def test_displays_inside_a_repr_share_its_budget(self):
        self.run_ok(
            "class A:\n  def __repr__(self):\n    while True: pass\n"
            "class B:\n  def __repr__(self): display(A()); return 'B!'\n"
            "  def _repr_html_(self): return 'too late'"
        )
        answer = self.run_ok("B()")
        self.assertEqual((answer.value, answer.mime), ("B!", {}))
        self.assertIn(b"took over", answer.displays[0].mime["text/plain"])
        self.assert_usable()

    def test_threads_have_no_budget(self):
        code = (
            "import threading, time\nclass A:\n  def __repr__(self): time.sleep(1.5); return 'slow'\n"
            "t = threading.Thread(target=display, args=(A(),)); t.start(); t.join()"
        )
        self.assertEqual(self.shown(code)[0][2], {"text/plain": b"slow"})


class Alarms(KernelTest):
    def test_alarms_of_user_code_still_ring(self):
        self.run_ok(
            "import signal, time\nrung = []\nsignal.signal(signal.SIGALRM, lambda *a: rung.append(1))\n"
            "class A:\n  def __repr__(self): time.sleep(0.1); return 'A!'"
        )
        # Due during the rendering, and after it.
        for seconds in (0.05, 0.3):
            self.run_ok("rung.clear(); signal.setitimer(signal.ITIMER_REAL, %r)" % seconds)
            answer = self.run_ok("A()")
            self.assertEqual(answer.value, "A!")
            self.run_ok("while not rung: time.sleep(0.01)")
        self.assert_value("signal.getsignal(signal.SIGALRM).__name__", "'<lambda>'")
        self.run_ok("signal.signal(signal.SIGALRM, signal.SIG_DFL)")
        for _ in range(3):
            self.run_ok("A()")
        self.run_ok("signal.setitimer(signal.ITIMER_REAL, 60, 30)")
        self.run_ok("display(A())")
        left = "left, again = signal.getitimer(signal.ITIMER_REAL)\n30 < left <= 60, again"
        self.assert_value(left, "(True, 30.0)")

    def test_rendering_leaves_no_alarm_behind(self):
        self.run_ok("import signal, time\nclass A: pass")
        self.run_ok("A()\ndisplay(A())")
        self.assert_value("signal.getitimer(signal.ITIMER_REAL)", "(0.0, 0.0)")
        self.assertIn("SIG_DFL", self.run_ok("signal.getsignal(signal.SIGALRM)").value)
