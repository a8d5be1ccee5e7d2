"""Interrupts hit user code, all of it and nothing else."""

import os
import signal
import time

from harness import WASM, KernelTest


class Interrupts(KernelTest):
    def assert_interrupted(self, code, interrupts=1):
        answer = self.kernel.run(code, interrupts)
        self.assertEqual(
            (answer.completion, answer.exception), ("interrupted", "KeyboardInterrupt"), answer
        )
        self.assertNotIn("vivarium", answer.traceback)
        return answer

    def test_loops_sleeps_and_locks_are_interrupted(self):
        self.run_ok("import time, threading, select, os")
        for code in (
            "while True: x = 5",
            "time.sleep(100)",
            "threading.Event().wait()",
            "threading.Lock().acquire() and threading.Semaphore(0).acquire()",
            "r, w = os.pipe()\nos.read(r, 1)",
            "[0 for i in iter(int, 1)]",
            "sum(iter(lambda: 0, 1))",
            "def f():\n    while True:\n        try:\n            input()\n        except EOFError:\n            pass\nf()",
        ):
            if WASM and "os.pipe" in code:
                continue  # A guest has no pipes.
            with self.subTest(code):
                trace = self.assert_interrupted("print('go')\n" + code).traceback
                self.assertIn("<execution ", trace)
        self.assert_usable()

    def test_earlier_output_stays(self):
        answer = self.assert_interrupted("print('go\\nbefore', end='')\nwhile True: x = 5")
        self.assertEqual(answer.stdout, "go\nbefore")

    def test_variables_stay_and_exception_handlers_run(self):
        # No bare loop here: in CPython 3.11 and 3.12 an interrupt can leave `while True` in a
        # `try` without running the handler, in any script.
        answer = self.assert_interrupted(
            "y = 5\ntry:\n    print('go'); import time; time.sleep(100)\nfinally:\n    print('cleaned up')"
        )
        self.assertEqual(answer.stdout, "go\ncleaned up\n")
        self.assert_value("y", "5")
        self.assertEqual(
            self.run_ok(
                "try:\n    print('go'); import time; time.sleep(100)\nexcept KeyboardInterrupt:\n    y = 'caught'\ny",
                1,
            ).value,
            "'caught'",
        )

    def test_code_that_catches_one_interrupt_gets_the_next(self):
        self.assert_interrupted(
            "try:\n    print('go'); import time; time.sleep(100)\nexcept KeyboardInterrupt: print('go')\ntime.sleep(100)",
            2,
        )

    def test_an_idle_kernel_ignores_interrupts(self):
        for _ in range(50):
            os.killpg(self.kernel.process.pid, signal.SIGINT)
        self.assert_usable()
        self.assert_value("import time; time.sleep(0.2); 'slept'", "'slept'")

    def test_many_interrupts_hit_user_code_or_nothing(self):
        code = "for i in range(200): pass\nprint(i)\ni"
        self.assert_interrupts_are_survived(
            lambda: self.kernel.begin(code), lambda: self.assert_value("1 - 1", "0")
        )

    def test_replaced_handlers_and_masks_do_not_last(self):
        self.run_ok("import signal")
        for code in (
            "signal.signal(signal.SIGINT, signal.SIG_IGN)",
            "signal.signal(signal.SIGINT, signal.SIG_DFL)",
            "signal.signal(signal.SIGINT, lambda *a: 1/0)",
            "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
        ):
            with self.subTest(code):
                self.run_ok(code)
                os.killpg(self.kernel.process.pid, signal.SIGINT)
                self.assert_interrupted("print('go')\nwhile True: x = 5")
                self.assert_usable()

    def test_an_interrupt_held_back_by_a_mask_is_dropped(self):
        self.run_ok(
            "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [2])\nprint('go')\nwhile 2 not in signal.sigpending(): time.sleep(0.01)",
            1,
        )
        self.assert_value("time.sleep(0.3); 'undisturbed'", "'undisturbed'")

    def test_signal_handlers_may_raise_between_executions(self):
        self.run_ok(
            "import signal\ndef late(*a): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)"
        )
        for _ in range(3):
            time.sleep(0.1)  # Not needed; lets the kernel wait for its next execution.
            os.kill(self.kernel.process.pid, signal.SIGALRM)
        self.assert_usable()

    def test_an_interrupted_await_has_its_traceback(self):
        answer = self.assert_interrupted(
            "import asyncio\ntry:\n    print('go')\n    await asyncio.sleep(100)\nfinally:\n    print('left')"
        )
        self.assertEqual(answer.stdout, "go\nleft\n")
        self.assertIn("    await asyncio.sleep(100)", answer.traceback)
        self.assert_value("await asyncio.sleep(0, 'on')", "'on'")

    def test_an_interrupt_during_compilation_hits_the_code(self):
        answer = self.kernel.run("x = [" + "1," * 200_000 + "]\nprint('go')\nwhile True: x = 5", 2)
        self.assertEqual(answer.completion, "interrupted")
        self.assert_usable()
