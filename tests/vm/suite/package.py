"""The package: upgraded and removed by the commands of docs/operations.md, and purged."""

import glob
import os
import pathlib
import pwd
import subprocess
import unittest

from installing import follow, show_said
from support import (
    CONFIG,
    SERVICE,
    Session,
    api,
    processes,
    run,
    show,
    templates_are_ready,
    wait_until,
)

PACKAGES = pathlib.Path(__file__).parent


def installed_version():
    return run("dpkg-query", "--showformat=${Version}", "--show", "vivarium")


class Package(unittest.TestCase):
    def test_an_upgrade_restarts_the_service_and_keeps_what_was_configured(self):
        original = CONFIG.read_text()
        self.addCleanup(CONFIG.write_text, original)
        CONFIG.write_text(
            original.replace("[environments.default]", "[environments.default]\nimages = true", 1)
        )
        run("systemctl", "restart", SERVICE)
        wait_until("templates are there", templates_are_ready)
        before, config = installed_version(), CONFIG.read_text()
        granted = pathlib.Path("/etc/subuid").read_text()
        for old in glob.glob("/root/*.deb"):
            os.unlink(old)
        run("cp", *glob.glob(f"{PACKAGES}/newer/*.deb"), "/root")
        pathlib.Path("/var/lib/vivarium/kept").write_text("of the operator's")
        session = Session()
        session.execute("x = 41")
        show_said(follow("Upgrade"))
        self.assertNotEqual(installed_version(), before)
        self.assertEqual(CONFIG.read_text(), config)
        self.assertEqual(pathlib.Path("/etc/subuid").read_text(), granted)
        self.assertTrue(os.path.exists("/var/lib/vivarium/kept"))
        self.assertEqual(show(SERVICE, "ActiveState"), "active")
        wait_until("templates are there", templates_are_ready)
        states = [(one["id"], one["state"]) for one in api("GET", "/v1/sessions")["sessions"]]
        self.assertEqual(states, [(session.id, "suspended")])
        self.assertEqual(session.execute("x + 1")["result"]["repr"], "42")
        # Its programs are those that it was suspended under, and not the new ones: tests/vm/run.
        told = "try: input()\nexcept EOFError as error: told = str(error)\ntold"
        self.assertIn("there is no", session.execute(told)["result"]["repr"])
        self.assertIn("there iz no", api("POST", "/v1/run", {"code": told})["result"]["repr"])
        session.delete()
        self.assertEqual(api("POST", "/v1/run", {"code": "6 * 7"})["result"]["repr"], "42")

    def test_removed_and_installed_again_it_is_as_it_was(self):
        config = CONFIG.read_text()
        run("apt-get", "remove", "--yes", "vivarium")
        self.assertEqual(processes(), {})
        self.assertEqual(show(SERVICE, "LoadState"), "masked")
        self.assertFalse(os.path.exists("/run/vivarium"))
        self.assertEqual(CONFIG.read_text(), config)
        run("apt-get", "install", "--yes", *glob.glob(f"{PACKAGES}/newer/*.deb"))
        self.assertEqual(CONFIG.read_text(), config)
        wait_until("it runs", lambda: show(SERVICE, "ActiveState") == "active")
        self.assertEqual(api("GET", "/v1/host")["mode"], "on")

    def test_purged_it_leaves_nothing(self):
        show_said(follow("Remove"))
        with self.assertRaises(KeyError):
            pwd.getpwnam("vivarium")
        for path in ("/etc/subuid", "/etc/subgid", "/etc/group"):
            self.assertNotIn("vivarium", pathlib.Path(path).read_text(), path)
        left = subprocess.run(
            ["find", "/etc", "/usr", "/lib", "/run", "/var/lib", "/var/cache", "/sys/fs/cgroup"]
            # Prometheus' configuration is the operator's, who wrote it.
            + ["-xdev", "-iname", "*vivarium*", "-not", "-path", "/run/testbed/*"]
            + ["-not", "-path", "/etc/prometheus/*", "-not", "-path", "/var/lib/prometheus/*"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout.split()
        # The image has no documentation, so no page of ours either.
        self.assertEqual(left, [])
        self.assertEqual(run("systemctl", "--failed", "--no-legend").strip(), "")
