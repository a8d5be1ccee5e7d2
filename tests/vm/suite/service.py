"""The service as systemd runs it: watched, reloaded, activated by its socket, drained."""

import os
import signal
import time
import unittest

from support import (
    CONFIG,
    SERVICE,
    Session,
    api,
    in_background,
    journal,
    journal_cursor,
    left_over,
    main_pid,
    processes,
    request,
    run,
    show,
    wait_until,
)


def restore_config():
    CONFIG.write_text(ORIGINAL)


ORIGINAL = ""


def setUpModule():
    global ORIGINAL
    ORIGINAL = CONFIG.read_text()


class Service(unittest.TestCase):
    maxDiff = None

    def test_a_daemon_that_hangs_is_restarted(self):
        before = left_over()
        restarts, daemon, cursor = int(show(SERVICE, "NRestarts")), main_pid(), journal_cursor()
        Session().execute("import time")
        os.kill(daemon, signal.SIGSTOP)
        wait_until("the watchdog bites", lambda: int(show(SERVICE, "NRestarts")) > restarts)
        wait_until("it is ready", lambda: show(SERVICE, "ActiveState") == "active")
        self.assertNotEqual(main_pid(), daemon)
        told = run("journalctl", "--unit", SERVICE, "--after-cursor", cursor, "--output=cat")
        self.assertIn("watchdog", told.lower())
        self.assertEqual(left_over(), before)

    def test_a_reload_takes_what_can_be_reloaded_and_names_the_rest(self):
        self.addCleanup(restore_config)
        daemon, cursor = main_pid(), journal_cursor()
        with Session() as old:
            changed = ORIGINAL.replace("#max_procs = 64", "max_procs = 21")
            changed = changed.replace("#max_body_bytes = 33554432", "max_body_bytes = 1000000")
            self.assertNotEqual(changed, ORIGINAL)
            CONFIG.write_text(changed)
            run("systemctl", "reload", SERVICE)
            wait_until("it is reloaded", lambda: "configuration reloaded" in journal(cursor))
            self.assertIn("not reloaded: it needs a restart", journal(cursor))
            self.assertEqual(show(SERVICE, "ActiveState"), "active")
            self.assertEqual(main_pid(), daemon)
            with Session() as new:
                self.assertEqual(new.info["limits"]["max_procs"], 21)
                pids = (new.scope / "kernel/pids.max").read_text().strip()
                self.assertEqual(pids, "21")
            # The session that was there keeps its limits, and its state.
            self.assertEqual(old.info["limits"]["max_procs"], 64)
            self.assertEqual(old.execute("1 + 1")["result"]["repr"], "2")
        restore_config()
        cursor = journal_cursor()
        run("systemctl", "reload", SERVICE)
        wait_until("it is reloaded", lambda: "configuration reloaded" in journal(cursor))

    def test_a_reload_of_a_broken_file_changes_nothing(self):
        self.addCleanup(restore_config)
        cursor = journal_cursor()
        CONFIG.write_text(ORIGINAL + "\n[sandbocks]\nmode = 1\n")
        run("systemctl", "reload", SERVICE)
        wait_until("it says so", lambda: "not reloaded" in journal(cursor))
        self.assertIn("sandbocks", journal(cursor))
        self.assertEqual(api("GET", "/v1/host")["mode"], "on")

    def test_the_log_has_fields_for_the_journal(self):
        cursor = journal_cursor()
        run("systemctl", "reload", SERVICE)
        wait_until("it is reloaded", lambda: "configuration reloaded" in journal(cursor))
        wanted = ["--unit", SERVICE, "--after-cursor", cursor, "--output=verbose"]
        self.assertIn("F_CHANGED=", run("journalctl", *wanted))

    def test_both_sockets_are_served(self):
        import urllib.request

        with urllib.request.urlopen("http://127.0.0.1:8470/healthz", timeout=60) as answer:
            self.assertEqual(answer.status, 200)
        mode = os.stat("/run/vivarium/api.sock").st_mode & 0o777
        self.assertEqual(mode, 0o660)

    def test_a_stop_waits_for_what_runs_and_leaves_nothing_and_the_first_client_starts_it(self):
        session = Session()
        code = "import time\ntime.sleep(6)\nprint('done')"
        with in_background(lambda: session.execute(code)) as results:
            wait_until("it runs", lambda: state(session) == "running")
            time.sleep(1)
            run("systemctl", "stop", SERVICE)
            stopped = show(SERVICE, "Result"), show(SERVICE, "ActiveState"), processes()
        self.assertEqual(results[0]["stdout"], "done\n", results[0])
        self.assertEqual(results[0]["status"], "ok")
        self.assertEqual(stopped, ("success", "inactive", {}))
        self.assertFalse(os.path.exists("/sys/fs/cgroup/vivarium.slice/vivarium.service"))
        self.assertEqual(show("vivarium.socket", "ActiveState"), "active")
        self.assertEqual(api("POST", "/v1/run", {"code": "6 * 7"})["result"]["repr"], "42")
        self.assertEqual(show(SERVICE, "ActiveState"), "active")
        self.assertEqual(api("GET", "/v1/sessions")["sessions"], [])

    def test_code_that_outlasts_the_stop_is_ended_by_it(self):
        self.addCleanup(restore_config)
        # For so long a stop waits, which is 30 s otherwise.
        CONFIG.write_text(ORIGINAL.replace('#exec_timeout = "30s"', 'exec_timeout = "3s"'))
        cursor = journal_cursor()
        run("systemctl", "reload", SERVICE)
        wait_until("it is reloaded", lambda: "configuration reloaded" in journal(cursor))
        session = Session()
        code = "import time\nwhile True:\n  try: time.sleep(600)\n  except BaseException: pass"
        with in_background(lambda: session.execute(code, 600_000)) as results:
            wait_until("it runs", lambda: state(session) == "running")
            run("systemctl", "stop", SERVICE)
            stopped = show(SERVICE, "Result"), processes()
        self.assertEqual((results[0]["status"], results[0]["cause"]), ("killed", "draining"))
        self.assertEqual(stopped, ("success", {}))
        restore_config()
        run("systemctl", "start", SERVICE)

    def test_the_slice_is_the_ceiling(self):
        limits = {name: show("vivarium.slice", name) for name in ("MemoryMax", "TasksMax")}
        self.assertNotIn("infinity", limits.values())
        run("systemctl", "set-property", "--runtime", "vivarium.slice", "MemoryMax=400M")
        self.addCleanup(run, "systemctl", "revert", "vivarium.slice")
        daemon = main_pid()
        with Session() as first, Session() as second:
            first.execute("data = b'x' * (150 << 20)")
            outcome = second.execute("data = b'x' * (1 << 30)")
            self.assertEqual(outcome["status"], "killed", outcome)
            self.assertEqual(outcome["cause"], "memory_limit", outcome)
        self.assertEqual(main_pid(), daemon, "the daemon survives it")


def state(session):
    return request("GET", f"/v1/sessions/{session.id}")[1]["state"]
