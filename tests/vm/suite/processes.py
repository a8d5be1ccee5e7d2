"""Processes, threads and descriptors: bounded, named in the answer, and cleared by a reset."""

import unittest

from support import Session

FORK_BOMB = """
import os, time
while True:
    if os.fork() == 0:
        time.sleep(600)
"""

SWALLOWING_FORK_BOMB = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""

THREAD_BOMB = """
import threading
while True:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
"""


class Processes(unittest.TestCase):
    def test_a_fork_bomb_is_refused_and_named(self):
        with Session(limits={"max_procs": 20}) as session:
            outcome = session.execute(FORK_BOMB)
            self.assertEqual((outcome["status"], outcome["state"]), ("error", "preserved"), outcome)
            self.assertEqual(outcome["exception"]["type"], "BlockingIOError")
            self.assertEqual(outcome["cause"], "pids_limit", outcome)
            self.assertIn("max_procs 20", outcome["detail"])
            self.assertLessEqual(len(session.members), 20)
            session.post("reset")
            self.assertEqual(len(session.members), 1)
            after = session.execute("import subprocess; subprocess.check_output(['echo', 'hi'])")
            self.assertEqual(after["status"], "ok", after)

    def test_a_fork_bomb_that_swallows_refusals_ends_with_its_time(self):
        with Session(limits={"max_procs": 20}) as session:
            outcome = session.execute(SWALLOWING_FORK_BOMB, timeout_ms=5_000)
            self.assertEqual(outcome["status"], "timed_out", outcome)
            self.assertEqual(outcome["cause"], "wall_time")
            self.assertIn("max_procs 20", outcome["detail"])
            session.post("reset")
            self.assertEqual(len(session.members), 1)
            self.assertEqual(session.execute("1 + 1")["result"]["repr"], "2")

    def test_a_thread_bomb_is_refused_and_named(self):
        with Session(limits={"max_procs": 20}) as session:
            outcome = session.execute(THREAD_BOMB)
            self.assertEqual(outcome["status"], "error", outcome)
            self.assertEqual(outcome["exception"]["type"], "RuntimeError")
            self.assertEqual(outcome["cause"], "pids_limit", outcome)
            session.post("reset")
            self.assertEqual(session.execute("1 + 1")["result"]["repr"], "2")

    def test_refusals_of_one_execution_are_not_held_against_the_next(self):
        with Session(limits={"max_procs": 20}) as session:
            self.assertEqual(session.execute(FORK_BOMB)["cause"], "pids_limit")
            outcome = session.execute("1 / 0")
            self.assertEqual((outcome["status"], outcome["cause"]), ("error", None), outcome)
            self.assertEqual(outcome["detail"], "")

    def test_descriptors_run_out_and_nothing_else_does(self):
        with Session(limits={"max_open_fds": 64}) as session:
            outcome = session.execute("kept = []\nwhile True: kept.append(open('/dev/null'))")
            self.assertEqual(outcome["exception"]["type"], "OSError", outcome)
            self.assertIn("[Errno 24]", outcome["exception"]["message"])
            self.assertEqual(outcome["state"], "preserved")
            after = session.execute("count = len(kept); kept.clear(); count > 50")
            self.assertEqual(after["result"]["repr"], "True", after)
