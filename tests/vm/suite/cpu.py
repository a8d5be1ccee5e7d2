"""CPU time: bounded per execution over all processes, throttled to cores."""

import unittest

from support import Session, in_background, wait_until

SPIN = """
import os
for _ in range({processes} - 1):
    if os.fork() == 0:
        break
while True:
    pass
"""


def cpu_stat(cgroup):
    """What a cgroup has used, and how often it was throttled."""
    lines = (cgroup / "cpu.stat").read_text().splitlines()
    return {name: int(value) for name, value in (line.split() for line in lines)}


def periods(cgroup, count):
    """Waits until this many more periods have passed, of those in which the cgroup ran."""
    end = cpu_stat(cgroup)["nr_periods"] + count
    wait_until(f"{count} periods", lambda: cpu_stat(cgroup)["nr_periods"] >= end)
    return cpu_stat(cgroup)


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
                # The kernel's own clock: each period of 100 ms has half of it for them all.
                before, after = periods(session.scope, 20), periods(session.scope, 40)
            passed_us = (after["nr_periods"] - before["nr_periods"]) * 100_000
            self.assertLess((after["usage_usec"] - before["usage_usec"]) / passed_us, 0.6)
            self.assertGreater(after["nr_throttled"], before["nr_throttled"])
