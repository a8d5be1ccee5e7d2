"""Tenants: what each may use with all its sessions together, and which session is whose."""

import contextlib
import json
import time
import unittest

from cpu import SPIN, cpu_stat
from support import (
    CGROUP,
    CONFIG,
    SERVICE,
    Session,
    api,
    in_background,
    journal,
    journal_cursor,
    request,
    run,
    wait_until,
)

# Fills memory page by page, so that the one that asks for too much is the one that is refused.
FILL = """
import mmap
data = mmap.mmap(-1, {mib} << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for offset in range(0, {mib} << 20, 4096):
    data[offset] = 1
print(len(data) >> 20)
"""


class Tenant:
    """A tenant with a fresh token."""

    def __init__(self, name, **settings):
        made = json.loads(run("vivarium", "tenant", "token", "--json"))
        self.name, self.token, self.hash = name, made["token"], made["token_sha256"]
        self.settings = settings

    @property
    def entry(self):
        lines = ["[[tenant]]", f'name = "{self.name}"', f'token_sha256 = ["{self.hash}"]']
        return "\n".join(lines + [f"{key} = {value}" for key, value in self.settings.items()])

    @property
    def cgroup(self):
        return CGROUP / "tenants" / self.name

    def read(self, file):
        return (self.cgroup / file).read_text().strip()

    def session(self, **wanted):
        return Session(token=self.token, **wanted)


def reload_with(text):
    CONFIG.write_text(text)
    cursor = journal_cursor()
    run("systemctl", "reload", SERVICE)
    wait_until("it is reloaded", lambda: "configuration reloaded" in journal(cursor))


class Tenants(unittest.TestCase):
    def setUp(self):
        self.original = CONFIG.read_text()
        self.addCleanup(reload_with, self.original)

    def configure(self, *tenants):
        reload_with("\n\n".join([self.original, *(tenant.entry for tenant in tenants), ""]))

    def test_two_tenants_that_spin_get_cpu_by_their_weights(self):
        light, heavy = Tenant("light", cpu_weight=100), Tenant("heavy", cpu_weight=300)
        self.configure(light, heavy)
        with contextlib.ExitStack() as stack:
            # A session has one core at most: two want all that the machine has.
            sessions = [stack.enter_context(of.session()) for of in (light, heavy) * 2]
            spin = SPIN.format(processes=2)
            for session in sessions:
                stack.enter_context(in_background(lambda one=session: one.execute(spin)))
            time.sleep(10)
            before = [cpu_stat(tenant.cgroup)["usage_usec"] for tenant in (light, heavy)]
            time.sleep(20)
            used = [
                cpu_stat(tenant.cgroup)["usage_usec"] - earlier
                for tenant, earlier in zip((light, heavy), before, strict=True)
            ]
            for session in sessions:
                session.post("reset")
        ratio = used[1] / used[0]
        print(f"     cpu by weights 100 and 300: 1 to {ratio:.2f}")
        self.assertGreater(ratio, 2.2)
        self.assertLess(ratio, 4)

    def test_the_memory_of_a_tenant_is_bounded_over_its_sessions(self):
        bounded, other = Tenant("bounded", max_memory_mb=300), Tenant("other")
        self.configure(bounded, other)
        limits = {"max_memory_mb": 256}
        with (
            other.session(limits=limits) as unharmed,
            bounded.session(limits=limits) as first,
            bounded.session(limits=limits) as second,
            bounded.session(limits=limits) as third,
        ):
            unharmed.execute("x = 42")
            for session in (first, second):
                self.assertEqual(session.execute(FILL.format(mib=60))["status"], "ok")
            # Below its own limit, and over the tenant's with what the others have.
            outcome = third.execute(FILL.format(mib=230))
            told = (outcome["status"], outcome["cause"], outcome["state"])
            self.assertEqual(told, ("killed", "memory_limit", "lost"), outcome)
            self.assertIn("reached its ceiling of 300 MiB", outcome["detail"])
            self.assertLessEqual(int(bounded.read("memory.peak")), 300 << 20)
            for session in (first, second):
                kept = session.execute("len(data) >> 20")
                self.assertEqual((kept["result"] or {}).get("repr"), "60", kept)
            after = third.execute("1 + 1")
            self.assertEqual((after["status"], after["detail"]), ("ok", ""), after)
            # The control: so much is there, for who is not bounded.
            outcome = unharmed.execute("x\n" + FILL.format(mib=230) + "x")
            self.assertEqual(outcome["status"], "ok", outcome)
            self.assertEqual(outcome["result"]["repr"], "42")
            # A session's own limit is told as that.
            outcome = first.execute(FILL.format(mib=300))
            self.assertEqual(outcome["cause"], "memory_limit", outcome)

    def test_the_memory_of_a_tenant_is_bounded_over_many_sessions(self):
        # Another name than above: a cgroup remembers its peak.
        bounded, other = Tenant("crowded", max_memory_mb=250), Tenant("other")
        self.configure(bounded, other)
        with contextlib.ExitStack() as stack:
            unharmed = stack.enter_context(other.session())
            unharmed.execute("x = 42")
            limits = {"max_memory_mb": 128}
            sessions = [stack.enter_context(bounded.session(limits=limits)) for _ in range(6)]
            told = [session.execute(FILL.format(mib=50)) for session in sessions]
            # Whoever was chosen while it was idle is told by its next execution.
            told += [session.execute("1 + 1") for session in sessions]
            out = [outcome["detail"] for outcome in told if "out of memory" in outcome["detail"]]
            self.assertGreater(len(out), 0, told)
            for detail in out:
                self.assertIn("reached its ceiling of 250 MiB", detail)
            self.assertEqual([outcome["status"] for outcome in told[-6:]], ["ok"] * 6, told)
            self.assertLessEqual(int(bounded.read("memory.peak")), 250 << 20)
            self.assertEqual(unharmed.execute("x")["result"]["repr"], "42")

    def test_a_reload_sets_ceilings_at_once(self):
        tenant = Tenant("changing")
        self.configure(tenant)
        files = ["cpu.weight", "cpu.max", "memory.max", "memory.swap.max", "pids.max"]
        usual = ["100", "max 100000", "max", "max", "max"]
        self.assertEqual([tenant.read(file) for file in files], usual)
        with tenant.session() as session:
            self.assertEqual(session.execute(FILL.format(mib=150))["status"], "ok")
            tenant.settings = {
                "cpu_weight": 50,
                "cpu_cores": 0.5,
                "max_memory_mb": 100,
                "max_procs": 77,
            }
            self.configure(tenant)
            held = [tenant.read(file) for file in files]
            self.assertEqual(held, ["50", "50000 100000", str(100 << 20), "0", "77"])
            # It had more than that: its kernel was killed, and its agent too unless what the kernel
            # had was free by then.
            self.assertLessEqual(int(tenant.read("memory.current")), 100 << 20)
            path, code = f"/v1/sessions/{session.id}/execute", "'data' in globals()"
            status, outcome = request("POST", path, {"code": code}, tenant.token)
            if status == 200:
                self.assertEqual((outcome["result"] or {}).get("repr"), "False", outcome)
                self.assertIn("reached its ceiling of 100 MiB", outcome["detail"])
            else:
                self.assertEqual((status, outcome["code"]), (404, "unknown_session"))
        tenant.settings = {}
        self.configure(tenant)
        self.assertEqual([tenant.read(file) for file in files], usual)
        with tenant.session() as session:
            self.assertEqual(session.execute(FILL.format(mib=150))["status"], "ok")

    def test_the_processes_of_a_tenant_are_bounded_over_its_sessions(self):
        tenant = Tenant("bounded", max_procs=30)
        self.configure(tenant)
        forks = (
            "import os, time\n"
            "made = 0\n"
            "try:\n"
            "    while made < 20:\n"
            "        if os.fork() == 0:\n"
            "            time.sleep(600)\n"
            "        made += 1\n"
            "except BlockingIOError:\n"
            "    pass\n"
            "made\n"
        )
        with tenant.session() as first, tenant.session() as second:
            made = [int(session.execute(forks)["result"]["repr"]) for session in (first, second)]
            self.assertEqual(made[0], 20)
            self.assertLess(made[1], 20)
            self.assertLessEqual(int(tenant.read("pids.current")), 30)

    def test_tokens_tell_tenants_apart(self):
        one, two = Tenant("one"), Tenant("two")
        self.configure(one, two)
        for token in (None, "", one.hash, one.token + "x", Tenant("none").token):
            status, problem = request("GET", "/v1/sessions", token=token)
            self.assertEqual((status, problem["code"]), (401, "unauthenticated"))
        with one.session(id="a") as mine, two.session(id="a") as others:
            self.assertEqual((mine.info["tenant"], others.info["tenant"]), ("one", "two"))
            mine.execute("x = 'mine'")
            others.execute("x = 'theirs'")
            self.assertEqual(mine.execute("x")["result"]["repr"], "'mine'")
        with one.session(id="b"):
            for method, action in (("GET", ""), ("DELETE", ""), ("POST", "/reset")):
                path = f"/v1/sessions/b{action}"
                status, problem = request(method, path, token=two.token)
                self.assertEqual((status, problem["code"]), (404, "unknown_session"), path)
            sessions = api("GET", "/v1/sessions", token=two.token)["sessions"]
            self.assertEqual(sessions, [])
