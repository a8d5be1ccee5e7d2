"""A tenant that takes all that it can get, beside one whose executions are answered as ever."""

import concurrent.futures
import contextlib
import itertools
import threading
import unittest

from disk import WAYS
from processes import SWALLOWING_FORK_BOMB
from support import CONFIG
from tenants import Tenant, reload_with

# Each is begun again when it has come to its end: status and cause.
ATTACKS = {
    "fork bomb": (SWALLOWING_FORK_BOMB, ("timed_out", "wall_time")),
    "memory hog": (
        "kept = []\nwhile True: kept.append(b'x' * (1 << 20))",
        ("killed", "memory_limit"),
    ),
    "disk filler": (WAYS["all three places in turn"], ("error", "disk_limit")),
    "output flood": ("while True: print('x' * 10_000)", ("timed_out", "wall_time")),
}
LIMITS = {"max_memory_mb": 128, "max_disk_mb": 32, "max_procs": 20}


def kills(tenant):
    """How many processes of a tenant died for lack of memory, as the host's kernel counts."""
    events = dict(line.split() for line in tenant.read("memory.events").splitlines())
    return int(events["oom_kill"])


class Rivals(unittest.TestCase):
    def test_every_execution_of_a_tenant_is_answered_while_another_does_its_worst(self):
        self.addCleanup(reload_with, CONFIG.read_text())
        victim, rival = Tenant("victim"), Tenant("rival")
        reload_with("\n\n".join([CONFIG.read_text(), victim.entry, rival.entry, ""]))
        is_over = threading.Event()
        outcomes: dict = {name: [] for name in ATTACKS}

        def attack(name, session):
            while not is_over.is_set():
                code, (status, _) = ATTACKS[name]
                outcome = session.execute(code, 3_000 if status == "timed_out" else 120_000)
                outcomes[name].append((outcome["status"], outcome["cause"]))

        with contextlib.ExitStack() as stack:
            mine = stack.enter_context(victim.session())
            mine.execute("open('kept', 'w').write('mine')\nx = 0")
            sessions = {n: stack.enter_context(rival.session(limits=LIMITS)) for n in ATTACKS}
            pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor())
            attacks = [pool.submit(attack, *both) for both in sessions.items()]
            stack.callback(is_over.set)
            # Until each attack has come to its end, or could not be begun.
            turns = itertools.count(1)
            while not all(outcomes.values()) and not any(attack.done() for attack in attacks):
                outcome = mine.execute("x += 1\n(x, open('kept').read())")
                told = (outcome["status"], outcome["state"], (outcome["result"] or {}).get("repr"))
                self.assertEqual(told, ("ok", "preserved", f"({next(turns)}, 'mine')"), outcome)
            with victim.session() as another:
                self.assertEqual(another.execute("6 * 7")["result"]["repr"], "42")
            is_over.set()
            for ended in attacks:
                ended.result()
            for name, (_, end) in ATTACKS.items():
                self.assertEqual(set(outcomes[name]), {end}, name)
            self.assertEqual(kills(victim), 0)
            self.assertGreater(kills(rival), 0)
