"""A crash of tenant code starts nothing of the host's, whatever kernel.core_pattern says."""

import contextlib
import json
import pathlib
import subprocess
import unittest

from layers import doctor
from support import Session, api

PATTERN = pathlib.Path("/proc/sys/kernel/core_pattern")
HANDLER = pathlib.Path("/usr/local/sbin/note-crash")
NOTES = pathlib.Path("/run/crashes")

CRASH = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"


@contextlib.contextmanager
def handled_crashes():
    """The host has each crash handled by a program, which notes the name of what crashed."""
    HANDLER.write_text(f'#!/bin/sh\necho "$1" >> {NOTES}\n')
    HANDLER.chmod(0o755)
    NOTES.write_text("")
    before = PATTERN.read_text()
    PATTERN.write_text(f"|{HANDLER} %e")
    try:
        yield
    finally:
        PATTERN.write_text(before)
        HANDLER.unlink()
        NOTES.unlink()


def crash_of_the_host(limit):
    """The control: a crash outside of the sandbox; what the handler has noted when it is done."""
    subprocess.run(["prlimit", f"--core={limit}", "bash", "-c", "kill -SEGV $$"], check=False)
    return subprocess.run(
        ["bash", "-c", f"until [ -s {NOTES} ]; do :; done; cat {NOTES}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout.split()


class Dumps(unittest.TestCase):
    def test_a_crash_of_a_tenant_starts_no_handler(self):
        with handled_crashes():
            with Session() as session:
                self.assertIn("SIGSEGV", json.dumps(session.execute(CRASH)))
                command = {"argv": ["python3", "-c", CRASH]}
                outcome = api("POST", f"/v1/sessions/{session.id}/commands", command)
                self.assertIn("SIGSEGV", json.dumps(outcome))
                # With 0 the handler would be started.
                lower = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))"
                self.assertEqual(session.execute(lower)["status"], "error")
            # With the limit 0, which is what services usually have. Handlers start in the order of
            # crashes, so those above would be there.
            self.assertEqual(crash_of_the_host(limit=0), ["bash"])

    def test_a_hard_limit_of_zero_is_partial_under_a_handler(self):
        with handled_crashes():
            self.assertEqual(doctor("LimitCORE=1")[0], 0)
            code, said = doctor("LimitCORE=0")
            self.assertEqual(code, 3, said)  # in mode on
            self.assertIn("LimitCORE=1", said)
        self.assertEqual(doctor("LimitCORE=0")[0], 0)

    def test_a_socket_pattern_is_partial(self):
        before = PATTERN.read_text()
        PATTERN.write_text("@/run/crashes.socket")
        try:
            code, said = doctor("LimitCORE=1")
            self.assertEqual(code, 3, said)  # in mode on
            self.assertIn("socket", said)
        finally:
            PATTERN.write_text(before)
