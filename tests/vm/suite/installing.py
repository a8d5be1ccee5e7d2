"""docs/operations.md, followed from its beginning: every command of it, up to those that upgrade
and remove the package, which are run by package.py."""

import os
import pathlib
import subprocess
import sys
import unittest

import document
from support import CONFIG, SERVICE, UNITS, api, processes, run, show

PAGE = pathlib.Path(__file__).with_name("operations.md")
# Run on the machine that built the package, by tests/vm/run.
ELSEWHERE = ["Build the package"]
# Run by package.py, at the end.
LATER = ["Upgrade", "Remove"]
# Where the package was copied to: the commands are run here.
DIRECTORY = "/root"


def follow(section):
    """Runs a section's blocks as root; what they printed."""
    said = ""
    for block in document.sections(PAGE)[section]:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=DIRECTORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        said += done.stdout
        if done.returncode != 0:
            raise AssertionError(f"exit code {done.returncode} of:\n{block}\n{said}")
    return said


def show_said(said):
    """Prints what commands printed, without apt's progress."""
    for line in said.splitlines():
        if line.strip() and not line.startswith("(Reading database"):
            print(f"     | {line[:200]}")
    sys.stdout.flush()


class Installing(unittest.TestCase):
    def test_the_commands_of_the_page_work_in_their_order(self):
        sections = [name for name in document.sections(PAGE) if name not in ELSEWHERE + LATER]
        self.assertGreater(len(sections), 4)
        for section in sections:
            with self.subTest(section):
                print(f"     following: {section}", flush=True)
                show_said(follow(section))

    def test_the_service_runs_as_its_own_user_and_nothing_as_root(self):
        self.assertEqual(show(SERVICE, "ActiveState"), "active")
        self.assertEqual(show(SERVICE, "NRestarts"), "0")
        ours = os.readlink("/proc/self/ns/user")
        without = []
        for pid, command in processes().items():
            status = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
            fields = dict(line.split(":", 1) for line in status)
            self.assertNotIn("0", fields["Uid"].split(), command)
            # What is prepared for the next session has capabilities in namespaces of its own alone.
            if os.readlink(f"/proc/{pid}/ns/user") == ours:
                self.assertEqual(int(fields["CapEff"], 16), 0, command)
                without.append(command)
        self.assertTrue(any("serve" in command for command in without), without)

    def test_units_verify_and_their_exposure_is_known(self):
        paths = [f"/lib/systemd/system/{unit}" for unit in UNITS]
        done = subprocess.run(
            ["systemd-analyze", "verify", *paths], capture_output=True, text=True, check=False
        )
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))
        lines = run("systemd-analyze", "security", "--no-pager", SERVICE).strip().splitlines()
        print(f"     {lines[-1].strip()}")
        exposed = {line.split()[1].split("=")[0] for line in lines if line.startswith("✗")}
        page = PAGE.read_text()
        missing = [name for name in sorted(exposed) if f"`{name}=`" not in page]
        self.assertEqual(missing, [], "docs/operations.md says what each remaining point is")

    def test_the_configuration_is_the_sample_but_for_what_the_page_changes(self):
        sample = run("vivarium", "config", "sample").splitlines()
        changed = [line for line in CONFIG.read_text().splitlines() if line not in sample]
        self.assertEqual(changed, ['mode = "on"'])

    def test_apparmor_is_left_alone_where_its_parser_knows_no_user_namespaces(self):
        self.assertFalse(pathlib.Path("/etc/apparmor.d/vivarium-agent").exists())

    def test_there_are_inotify_instances_for_more_sessions_than_the_kernel_allows_for(self):
        self.assertEqual(run("sysctl", "-n", "fs.inotify.max_user_instances").strip(), "8192")

    def test_subordinate_ids_are_granted_alike_for_users_and_groups(self):
        granted = [
            [line for line in pathlib.Path(path).read_text().splitlines() if "vivarium" in line]
            for path in ("/etc/subuid", "/etc/subgid")
        ]
        self.assertEqual(granted[0], granted[1])
        self.assertEqual(len(granted[0]), 1)
        self.assertEqual(granted[0][0].split(":")[2], "65536")


class Api(unittest.TestCase):
    def test_the_daemon_says_that_it_is_on(self):
        host = api("GET", "/v1/host")
        self.assertEqual(host["mode"], "on")
