"""An exception that a signal handler raises in kernel code is reported once, or dropped."""

from harness import KernelTest

# `spoil("part.name", after)` raises SIGALRM before or after the kernel's next call of its function.
PRELUDE = """
import gc, signal, sys
def handler(*_): raise TimeoutError(110, 'late')
signal.signal(signal.SIGALRM, handler)
parts = {it.__name__: it for it in gc.unfreeze() or gc.get_objects() if type(it) is type(sys) and it.__name__ not in sys.modules}
def spoil(name, after):
    part, name = name.split('.')
    part = parts[part]
    real = getattr(part, name)
    def spoiled(*args):
        setattr(part, name, real)
        result = real(*args) if after else None
        signal.raise_signal(signal.SIGALRM)
        return result if after else real(*args)
    setattr(part, name, spoiled)
"""
# In the order in which the kernel calls them, from the end of the code on.
BEFORE_THE_ANSWER = (
    "kernel.getpid",
    "streams.call_user",
    "kernel.call_user",
    "kernel.value_frame",
    "kernel.string",
    "guard.stop_tracing",
    "guard.setprofile",
    "kernel.encode_outcome",
    "wire.frame",
    "streams.flush",
    "streams.restore_streams",
    "streams.is_dead",
    "guard.restore",
    "guard.signal",
)
# Not after a system call or `accept`: no signal comes between these and their result.
AFTER_THE_ANSWER = (
    ("wire.write", False),
    ("wire.answer", True),
    ("kernel.finish", True),
    ("guard.restore_signal_mask", False),
    ("guard.restore_signal_mask", True),
    ("guard.pthread_sigmask", True),
    ("kernel.Execution", True),
    ("wire.receive", False),
    ("wire.read_frame", False),
    ("wire.readv", False),
)


class SignalHandlers(KernelTest):
    def setUp(self):
        super().setUp()
        self.run_ok(PRELUDE)

    def spoil(self, name, after, code="1 + 1"):
        return self.kernel.run("spoil(%r, %r)\n%s" % (name, after, code))

    def assert_late(self, answer):
        self.assertEqual(
            (answer.completion, answer.exception, answer.value),
            ("error", "TimeoutError", None),
            answer,
        )
        self.assertIn("in handler", answer.traceback)
        self.assertNotIn("<vivarium/", answer.traceback)

    def test_an_exception_before_the_answer_is_reported(self):
        for name in BEFORE_THE_ANSWER:
            for after in (False, True):
                with self.subTest(name, after=after):
                    self.assert_late(self.spoil(name, after))
                    self.assert_value("1 + 1", "2")
        for name in ("kernel.finish", "wire.answer"):
            self.assert_late(self.spoil(name, False))
        self.assert_usable()

    def test_an_exception_before_the_code_keeps_it_from_running(self):
        self.run_ok("ran = False")
        for name in ("kernel.execute", "kernel.send", "wire.write", "kernel.run"):
            with self.subTest(name):
                # Armed after the answer, by the next call.
                self.run_ok(
                    "real = parts['wire'].receive\ndef receive():\n"
                    "    parts['wire'].receive = real\n    frame = real()\n"
                    "    spoil(%r, False)\n    return frame\nparts['wire'].receive = receive" % name
                )
                self.assert_late(self.kernel.run("ran = True"))
                self.assert_value("ran", "False")
        self.assert_usable()

    def test_an_exception_after_the_answer_is_dropped(self):
        for name, after in AFTER_THE_ANSWER:
            with self.subTest(name, after=after):
                answer = self.spoil(name, after)
                self.assertEqual((answer.completion, answer.value), ("ok", "2"), answer)
                self.assert_value("1 + 1", "2")
        self.assert_usable()

    def test_an_exception_of_the_code_becomes_its_context(self):
        answer = self.spoil("streams.flush", False, "1/0")
        self.assert_late(answer)
        self.assertIn("ZeroDivisionError", answer.traceback)
        self.assertIn("During handling of the above exception", answer.traceback)
