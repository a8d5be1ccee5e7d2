"""What sessions and executions use, as the kernel counts it, and when it is told."""

import os
import pathlib
import re
import unittest

from support import (
    SERVICE,
    SOCKET,
    Session,
    api,
    in_background,
    main_pid,
    run,
    wait_until,
)

# Sessions can read it and, caches dropped, have to get it from the disk.
FILE = pathlib.Path("/usr/lib/python3/dist-packages/vivarium-test-bed")
FILE_BYTES = 16 << 20

IN_A_CHILD = """
import os
child = os.fork()
if child == 0:
    data = b"x" * (100 << 20)
    os._exit(0)
os.waitpid(child, 0)[1]
"""

FORGOTTEN_CHILD = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
reader, writer = os.pipe()
if os.fork() == 0:
    while time.process_time() < 1: pass
    os._exit(0)
os.close(writer)
os.read(reader, 1)
"""

REFUSED_AND_GOES_ON = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    except BlockingIOError:
        time.sleep(600)
"""

REFUSED_AGAIN_AND_AGAIN = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
    except BlockingIOError:
        time.sleep(0.001)
"""


def limit_events(limit):
    """How often a limit was reached, as /metrics says now."""
    text = run("curl", "--silent", "--fail", "--unix-socket", SOCKET, "http://localhost/metrics")
    line = rf'^vivarium_limit_events_total{{limit="{limit}",tenant="default"}} (\d+)$'
    return number_in(text, line)


def number_in(text, pattern):
    """The number that the first group of a pattern finds."""
    found = re.search(pattern, text, re.MULTILINE)
    assert found, text
    return int(found[1])


def logged():
    """How often the service has said that limits were reached."""
    run("journalctl", "--sync")
    log = run("journalctl", "--unit", SERVICE, "--output=cat")
    return log.splitlines().count("limits were reached")


def usage(session):
    return api("GET", f"/v1/sessions/{session.id}")["usage"]


class Usage(unittest.TestCase):
    def test_memory_of_children_is_in_the_peak(self):
        with Session() as session:
            before = usage(session)["memory_peak_bytes"]
            self.assertTrue(0 < before < 100 << 20, before)
            outcome = session.execute(IN_A_CHILD)
            self.assertEqual(outcome["result"]["repr"], "0", outcome)
            self.assertGreater(outcome["usage"]["memory_peak_bytes"], 100 << 20)
            # It was that execution's, and stays the session's.
            after = session.execute("1")["usage"]["memory_peak_bytes"]
            self.assertTrue(0 < after < 100 << 20, after)
            self.assertGreater(usage(session)["memory_peak_bytes"], 100 << 20)
            self.assertLess(usage(session)["memory_bytes"], 100 << 20)

    def test_children_that_nobody_waited_for_are_counted(self):
        with Session() as session:
            outcome = session.execute(FORGOTTEN_CHILD)
            self.assertEqual(outcome["status"], "ok", outcome)
            self.assertGreaterEqual(outcome["usage"]["cpu_ms"], 1000)
            self.assertGreaterEqual(usage(session)["cpu_ms"], 1000)
            self.assertLess(session.execute("1")["usage"]["cpu_ms"], 1000)

    def test_what_is_read_from_the_disk_is_counted(self):
        FILE.write_bytes(os.urandom(FILE_BYTES))
        self.addCleanup(FILE.unlink)
        read = f"len(open({str(FILE)!r}, 'rb').read())"
        with Session() as session:
            run("sync")
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
            outcome = session.execute(read)
            self.assertEqual(outcome["result"]["repr"], str(FILE_BYTES), outcome)
            self.assertGreaterEqual(outcome["usage"]["io_read_bytes"], FILE_BYTES)
            self.assertGreaterEqual(usage(session)["io_read_bytes"], FILE_BYTES)
            # Now it is in the cache.
            again = session.execute(read)["usage"]
            self.assertLess(again["io_read_bytes"], FILE_BYTES)
            self.assertIsInstance(again["io_write_bytes"], int)

    def test_the_most_processes_are_told(self):
        with Session() as session:
            session.execute(
                "import subprocess\n"
                "children = [subprocess.Popen(['sleep', '600']) for _ in range(5)]\n"
                "for child in children: child.kill(); child.wait()\n"
            )
            peak = usage(session)["processes_peak"]
            self.assertTrue(6 <= peak < 12, peak)


class Watch(unittest.TestCase):
    def test_refused_forks_are_told_while_the_code_still_runs(self):
        before, logged_before = limit_events("pids"), logged()
        with Session(limits={"max_procs": 10}) as session:
            with in_background(lambda: session.execute(REFUSED_AND_GOES_ON)) as results:
                wait_until("a refusal is counted", lambda: limit_events("pids") > before)
                self.assertEqual(results, [], "it is still running")
                self.assertEqual(usage(session)["executions"], 0)
                self.assertEqual(logged(), logged_before + 1)
                self.assertEqual(limit_events("pids"), before + 1)
                session.post("interrupt")
            [outcome] = results
            self.assertEqual(outcome["status"], "interrupted", outcome)
            self.assertIn("1 times a new process was refused", outcome["detail"])
        self.assertEqual(limit_events("pids"), before + 1)

    def test_each_refusal_is_counted_once(self):
        before, logged_before = limit_events("pids"), logged()
        with Session(limits={"max_procs": 10}) as session:
            outcome = session.execute(REFUSED_AGAIN_AND_AGAIN, timeout_ms=5_000)
            self.assertEqual(outcome["status"], "timed_out", outcome)
            refused = number_in(outcome["detail"], r"(\d+) times a new process was refused")
            self.assertGreater(refused, 1)
            self.assertEqual(limit_events("pids"), before + refused)
            self.assertEqual(logged(), logged_before + 1)

    def test_a_kill_for_want_of_memory_is_counted_once(self):
        before, logged_before = limit_events("memory"), logged()
        with Session(limits={"max_memory_mb": 128}) as session:
            outcome = session.execute("data = b'x' * (1 << 30)")
            self.assertEqual(outcome["cause"], "memory_limit", outcome)
            killed = number_in(outcome["detail"], r"memory.events counts (\d+) killed")
            self.assertEqual(limit_events("memory"), before + killed)
            self.assertEqual(logged(), logged_before + 1)

    def test_nothing_is_left_open_of_sessions_that_are_gone(self):
        descriptors = pathlib.Path("/proc", str(main_pid()), "fd")
        with Session() as session:
            session.execute("1")
            before = len(list(descriptors.iterdir()))
        for _ in range(10):
            with Session() as session:
                session.execute("1")
        with Session() as session:
            session.execute("1")
            # Connections come and go; of each session it would be five.
            self.assertLess(len(list(descriptors.iterdir())), before + 10)
