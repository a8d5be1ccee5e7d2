"""CPU time: bounded per execution over all processes, throttled to cores."""

import time
import unittest

from support import Session, in_background

SPIN = """
import os
for _ in range({processes} - 1):
    if os.fork() == 0:
        break
while True:
    pass
"""


def cpu_us(cgroup):
    """CPU time that was used in a cgroup."""
    for line in (cgroup / "cpu.stat").read_text().splitlines():
        if line.startswith("usage_usec "):
            return int(line.split()[1])
    raise AssertionError("cpu.stat has no usage_usec")


class Cpu(unittest.TestCase):
    def test_many_spinning_processes_use_up_the_time_of_one_execution(self):
        with Session(limits={"max_cpu_secs": 4}) as session:
            outcome = session.execute(SPIN.format(processes=6))
            self.assertEqual(
                (outcome["status"], outcome["cause"]), ("timed_out", "cpu_limit"), outcome
            )
            self.assertIn("max_cpu_secs 4", outcome["detail"])
            session.post("reset")
            # It is per execution: the next one has all of it again.
            after = session.execute("sum(range(1_000_000)) > 0")
            self.assertEqual(after["status"], "ok", after)

    def test_more_processes_get_no_more_than_the_cores_of_the_session(self):
        with Session(limits={"cpu_cores": 0.5}) as session:
            with in_background(lambda: session.execute(SPIN.format(processes=4), 8_000)):
                time.sleep(3)
                before, began = cpu_us(session.scope), time.monotonic()
                time.sleep(4)
                cores = (cpu_us(session.scope) - before) / 1e6 / (time.monotonic() - began)
            self.assertLess(cores, 0.6)
            stat = (session.scope / "cpu.stat").read_text()
            throttled = [line for line in stat.splitlines() if line.startswith("nr_throttled ")]
            self.assertNotEqual(throttled, ["nr_throttled 0"])
