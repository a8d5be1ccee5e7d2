"""Every layer is enforced here, and the limits are in the kernel's own files."""

import contextlib
import json
import pathlib
import subprocess
import unittest

from support import CGROUP, Session, api, main_pid

# What systemd/vivarium.service leaves out, and says why.
LEFT_OUT = [
    "NoNewPrivileges=yes",
    "SystemCallFilter=~@reboot",
    "SystemCallArchitectures=native",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "MemoryDenyWriteExecute=yes",
    "PrivateDevices=yes",
    "PrivateUsers=yes",
    "ProtectProc=invisible",
    "ProtectClock=yes",
    "ProtectControlGroups=yes",
    "ProtectHostname=yes",
    "ProtectKernelLogs=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelTunables=yes",
]


def doctor(*properties):
    """Examines the host under the unit's own conditions and these; exit code and output."""
    options = ["User=vivarium", "Delegate=memory pids cpu io", "RuntimeDirectory=doctor"]
    options += ["StateDirectory=doctor", *properties]
    # Layers are those of any session: without what has none of its own, there is less to start.
    without = ["VIVARIUM_EGRESS_PASST=off", "VIVARIUM_ENVIRONMENTS_DEFAULT_TEMPLATE=off"]
    options += [f"Environment={' '.join(without)}"]
    options += ["CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_DAC_OVERRIDE CAP_SYS_ADMIN"]
    done = subprocess.run(
        ["systemd-run", "--quiet", "--wait", "--pipe", "--collect"]
        + [f"--property={option}" for option in options]
        + ["vivarium", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def reason(said):
    """The first layer that is missing, of what doctor says."""
    with contextlib.suppress(ValueError):
        for report in json.loads(said)["layers"]:
            if report["status"] != "enforced":
                return f"{report['layer']} {report['status']}: {report['detail']}"[:200]
    return said[:200]


class Layers(unittest.TestCase):
    def test_every_option_that_the_unit_leaves_out_would_cost_a_layer(self):
        self.assertEqual(doctor()[0], 0)
        for option in LEFT_OUT:
            with self.subTest(option):
                code, said = doctor(option)
                print(f"     {option}: {reason(said)}", flush=True)
                # 3 where it is one without which nothing starts.
                self.assertIn(code, (1, 3), said)

    def test_doctor_is_all_green_and_exits_0(self):
        done = subprocess.run(
            ["systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--property=Delegate=yes"]
            + ["vivarium", "doctor", "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        diagnosis = json.loads(done.stdout)
        self.assertTrue(diagnosis["ok"])
        statuses = {report["layer"]: report["status"] for report in diagnosis["layers"]}
        self.assertEqual(len(statuses), 9)
        self.assertEqual(set(statuses.values()), {"enforced"})

    def test_every_layer_is_enforced_in_the_service(self):
        reports = api("GET", "/v1/host")["layers"]
        self.assertEqual([r["detail"] for r in reports if r["status"] != "enforced"], [])
        self.assertEqual(len(reports), 9)
        with Session() as session:
            reports = session.info["protection"]
            self.assertEqual({report["status"] for report in reports}, {"enforced"})

    def test_the_limits_of_a_session_are_in_its_scope(self):
        limits = {"max_memory_mb": 200, "max_procs": 17, "cpu_cores": 0.5}
        with Session(limits=limits) as session:
            scope = session.scope
            held = {
                name: (scope / name).read_text().strip()
                for name in ("memory.max", "memory.swap.max", "cpu.max", "cpu.weight")
            }
            held["memory.oom.group"] = (session.leaf / "memory.oom.group").read_text().strip()
            held["pids.max"] = (scope / "kernel/pids.max").read_text().strip()
            # A machine without swap may have no file for it; this one has.
            self.assertEqual(
                held,
                {
                    "memory.max": str(200 << 20),
                    "memory.swap.max": "0",
                    "memory.oom.group": "1",
                    "pids.max": "17",
                    "cpu.max": "50000 100000",
                    "cpu.weight": "100",
                },
            )
            for leaf in (scope / "agent", session.leaf):
                self.assertNotEqual((leaf / "cgroup.procs").read_text(), "", leaf)
            for inner in (scope, scope / "kernel"):
                self.assertEqual((inner / "cgroup.procs").read_text(), "", inner)

    def test_the_daemon_is_in_a_leaf_of_its_own(self):
        cgroup = pathlib.Path(f"/proc/{main_pid()}/cgroup").read_text().strip()
        self.assertEqual(cgroup, "0::/vivarium.slice/vivarium.service/supervisor")
        self.assertEqual((CGROUP / "cgroup.procs").read_text(), "")
        enabled = (CGROUP / "tenants/default/cgroup.subtree_control").read_text().split()
        self.assertTrue({"memory", "pids", "cpu"} <= set(enabled), enabled)

    def test_a_session_sees_no_cgroup_but_its_own(self):
        with Session() as session:
            seen = session.execute("print(open('/proc/self/cgroup').read().strip())")
            self.assertEqual(seen["stdout"], "0::/\n")
