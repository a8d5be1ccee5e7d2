"""Nothing is left: no process, cgroup, mount, file; however sessions or the daemon end."""

import concurrent.futures
import os
import pathlib
import signal
import unittest

from support import (
    SERVICE,
    Session,
    api,
    left_over,
    main_pid,
    processes,
    request,
    show,
    wait_until,
)

# More than the descriptors that the daemon may have afterwards.
SESSIONS = 80
# At one time: how the daemon copes with many is another test's business.
AT_ONCE = 4

# Leaves what it can: processes out of its group and session, files, and a parent that ignores
# signals.
UNTIDY = """
import os, signal, time
open("/tmp/left", "w").write("x"); open("/dev/shm/left", "w").write("x")
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.fork() == 0:
            time.sleep(3600)
        time.sleep(3600)
"""


class Leftovers(unittest.TestCase):
    maxDiff = None

    def test_many_sessions_leave_nothing(self):
        before = left_over()

        def one(_):
            with Session() as session:
                return session.execute(UNTIDY + "1 + 1")

        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for outcome in pool.map(one, range(SESSIONS)):
                self.assertEqual(outcome["status"], "ok", outcome)
        self.assertEqual(left_over(), before)
        descriptors = os.listdir(f"/proc/{main_pid()}/fd")
        self.assertLess(len(descriptors), 60, "the daemon has let go of its sessions")

    def test_a_run_leaves_nothing(self):
        before = left_over()
        outcome = api("POST", "/v1/run", {"code": UNTIDY + "1 + 1"})
        self.assertEqual(outcome["result"]["repr"], "2", outcome)
        self.assertEqual(left_over(), before)

    def test_nothing_is_left_over_after_the_daemon_was_killed(self):
        before = left_over()
        restarts, daemon = int(show(SERVICE, "NRestarts")), main_pid()
        for _ in range(3):
            outcome = Session().execute(UNTIDY)
            self.assertEqual(outcome["status"], "ok", outcome)
        theirs = set(processes()) - {daemon}
        self.assertGreaterEqual(len(theirs), 3 * 8)
        os.kill(daemon, signal.SIGKILL)
        wait_until("systemd restarts it", lambda: int(show(SERVICE, "NRestarts")) > restarts)
        wait_until("it is ready", lambda: show(SERVICE, "ActiveState") == "active")
        self.assertNotEqual(main_pid(), daemon)
        self.assertEqual([pid for pid in theirs if pathlib.Path(f"/proc/{pid}").exists()], [])
        self.assertEqual(left_over(), before)
        self.assertEqual(api("GET", "/v1/sessions")["sessions"], [])
        self.assertEqual(api("POST", "/v1/run", {"code": "6 * 7"})["result"]["repr"], "42")

    def test_a_killed_agent_or_kernel_is_its_own_sessions_matter(self):
        before = left_over()
        with Session() as other:
            for leaf in ("agent", "kernel"):
                with self.subTest(leaf), Session() as session:
                    session.execute(UNTIDY)
                    home = session.leaf if leaf == "kernel" else session.scope / leaf
                    first = (home / "cgroup.procs").read_text().split()[0]
                    os.kill(int(first), signal.SIGKILL)
                    if leaf == "kernel":
                        # A cgroup no longer lists a process that is still ending, and takes code.
                        kernel = pathlib.Path("/proc") / first
                        wait_until("it is gone", lambda kernel=kernel: not kernel.exists())
                        after = session.execute("1 + 1")
                        self.assertEqual(after["result"]["repr"], "2", after)
                    else:
                        path = f"/v1/sessions/{session.id}"
                        wait_until(
                            "the session ends", lambda path=path: request("GET", path)[0] == 404
                        )
                        wait_until("its scope goes", lambda: not session.scope.exists())
            self.assertEqual(other.execute("1 + 1")["result"]["repr"], "2")
        self.assertEqual(left_over(), before)
