"""What happens in one leaf of a session, a kernel's or a background command's, stays there."""

import time
import unittest

from support import Session, api, in_background

LIMIT_MB = 192

TOO_MUCH = "data = b'x' * (1 << 30)"


def ended(session, execution):
    """The outcome of an execution, once it has ended."""
    for _ in range(600):
        found = api("GET", f"/v1/sessions/{session.id}/executions/{execution}")
        if found["state"] == "done":
            return found["outcome"]
        time.sleep(0.1)
    raise AssertionError(found)


def start(session, **command):
    return api("POST", f"/v1/sessions/{session.id}/commands", command | {"background": True})


class Leaves(unittest.TestCase):
    def setUp(self):
        self.session = Session(limits={"max_memory_mb": LIMIT_MB})
        self.addCleanup(self.session.delete)
        api("POST", f"/v1/sessions/{self.session.id}/contexts", {"id": "other"})
        for context in ("main", "other"):
            self.assertEqual(self.execute("x = 1", context)["status"], "ok")

    def execute(self, code, context):
        return self.session.execute(code, context=context)

    def is_fresh(self, context):
        outcome = self.execute("'x' in globals()", context)
        self.assertEqual(outcome["kernel"]["context"], context, outcome)
        return outcome["result"]["repr"] == "False"

    def test_a_context_that_takes_too_much_memory_dies_alone(self):
        # Either of the two, so that neither is spared for another reason.
        for guilty, innocent in (("other", "main"), ("main", "other")):
            with self.subTest(guilty):
                for context in (guilty, innocent):
                    self.execute("x = 1", context)
                outcome = self.execute(TOO_MUCH, guilty)
                told = (outcome["status"], outcome["cause"], outcome["state"])
                self.assertEqual(told, ("killed", "memory_limit", "lost"), outcome)
                self.assertIn(f"the limit is {LIMIT_MB} MiB", outcome["detail"])
                self.assertTrue(self.is_fresh(guilty))
                self.assertFalse(self.is_fresh(innocent))

    def test_a_background_command_that_takes_too_much_memory_dies_alone(self):
        alone = "python3 -c \"b'x' * (1 << 30)\""
        for shell in (alone, f"setsid {alone} & wait"):
            with self.subTest(shell):
                execution = start(self.session, shell=shell)["execution_id"]
                outcome = ended(self.session, execution)
                told = (outcome["status"], outcome["cause"], outcome["state"])
                self.assertEqual(told, ("killed", "memory_limit", "preserved"), outcome)
                self.assertFalse(self.is_fresh("main") or self.is_fresh("other"))

    def test_a_background_command_outlives_a_kernel_that_takes_too_much_memory(self):
        execution = start(self.session, argv=["sleep", "600"])["execution_id"]
        outcome = self.execute(TOO_MUCH, "main")
        self.assertEqual(outcome["cause"], "memory_limit", outcome)
        found = api("GET", f"/v1/sessions/{self.session.id}/executions/{execution}")
        self.assertEqual(found["state"], "running")

    def test_processor_time_and_memory_are_those_of_the_context(self):
        burn = "import time\nwhile time.process_time() < 3: pass"
        hold = "held = b'x' * (64 << 20)\nimport time\ntime.sleep(4)"
        with in_background(lambda: self.execute(burn, "other")) as burnt:
            held = self.execute(hold, "main")
        [burnt] = burnt
        self.assertGreater(burnt["usage"]["cpu_ms"], 1900, burnt)
        self.assertLess(held["usage"]["cpu_ms"], 1900, held)
        self.assertGreater(held["usage"]["memory_peak_bytes"], 64 << 20, held)
        self.assertLess(burnt["usage"]["memory_peak_bytes"], 64 << 20, burnt)

    def test_leaves_go_with_what_was_in_them(self):
        kernel = self.session.scope / "kernel"
        before = sorted(path.name for path in kernel.iterdir() if path.is_dir())
        self.assertEqual(before, ["context-0-0", "context-1-0"])
        ended(self.session, start(self.session, argv=["true"])["execution_id"])
        api("DELETE", f"/v1/sessions/{self.session.id}/contexts/other")
        self.session.post("reset")
        for _ in range(100):
            left = [path.name for path in kernel.iterdir() if path.is_dir()]
            if left == ["context-0-1"]:
                return
            time.sleep(0.1)
        self.fail(left)
