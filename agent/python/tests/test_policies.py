"""Policies of one execution: applied, noted, and off again however it ends."""

import os
import sys
import unittest

from harness import WASM, KernelTest, details_of, part_of_kernel

HAS_MONITORING = bool(WASM) or sys.version_info >= (3, 12)
# What a policy leaves in Python while it is on.
TRACES = (
    "import builtins, sys\n"
    "[type(print).__name__, type(builtins.__import__).__name__,"
    " sys.modules['_frozen_importlib']._gcd_import.__code__.co_filename[:1],"
    " *([it for it in map(sys.monitoring.get_tool, range(6)) if it] if hasattr(sys, 'monitoring') else []),"
    " hasattr(builtins, '__vivarium_echo__'), 'host' in sys.modules]"
)
OFF = "['builtin_function_or_method', 'builtin_function_or_method', '<', False, False]"
ALL: dict = {
    "imports": {"deny": ["socket"]},
    "audit_events": {"deny": ["socket.connect"]},
    "echo": "all",
    "prints": True,
    "modules": [{"name": "host", "content": '{"a": 1}'}],
    "names": {"keep": ["kept"]},
}
if HAS_MONITORING:
    ALL["max_work"] = 1_000_000


class PolicyTest(KernelTest):
    def held(self, code, completion="ok", interrupts=0, **policy):
        answer = self.kernel.run(code, interrupts, policy=policy)
        self.assertEqual(answer.completion, completion, answer)
        return answer

    def assert_off(self):
        answer = self.run_ok(TRACES)
        self.assertEqual((answer.value, answer.account), (OFF, None))


class Lifetime(PolicyTest):
    def test_without_a_policy_there_is_no_account_and_no_trace(self):
        self.assert_off()
        self.assertNotEqual(self.held(TRACES, **ALL).value, OFF)
        self.assert_off()

    def test_a_policy_is_off_after_every_end(self):
        for code, completion in (
            ("1", "ok"),
            ("1/0", "error"),
            ("raise SystemExit(1)", "error"),
            ("def f(:", "error"),
            ("import asyncio\nraise asyncio.CancelledError", "error"),
            ("raise KeyboardInterrupt", "interrupted"),
            ("await __import__('asyncio').sleep(0)", "ok"),
            ("import sys, threading\nsys.settrace(lambda *a: None)", "ok"),
            ("import builtins\nbuiltins.print(1)", "ok"),
        ):
            with self.subTest(code):
                self.held(code, completion, **ALL)
                self.assert_off()
        self.assert_usable()

    def test_what_code_puts_in_place_of_ours_stays(self):
        self.held("import builtins\nbuiltins.print = kept = lambda *a: None", **ALL)
        self.assert_value("import builtins\nbuiltins.print is kept", "True")

    def test_code_that_breaks_what_a_policy_needs_harms_only_itself(self):
        for code in (
            "import sys\nsys.modules['json'] = None",
            "import json\njson.dumps = lambda *a, **o: 1/0",
            "import json.encoder\njson.encoder.JSONEncoder.encode = lambda *a: 5",
            "import sys\nfor n in ('get_tool', 'set_events', 'register_callback', 'free_tool_id'):\n"
            "    if hasattr(sys, 'monitoring'): setattr(sys.monitoring, n, lambda *a: 1/0)",
            "import sys\nsys.modules.clear()",
        ):
            with self.subTest(code):
                kernel = self.start()
                kernel.run(code, policy=ALL)
                kernel.run(code, policy=ALL)
                self.assertEqual(kernel.run("1+1").value, "2")
                answer = kernel.run("1+1", policy={"names": {"keep": []}})
                self.assertIn(answer.completion, ("ok", "error"))
                self.assertEqual(kernel.run("1+1").value, "2")

    def test_a_policy_that_cannot_be_applied_fails_the_execution_and_is_off(self):
        answer = self.held("1", "error", **{**ALL, "modules": [{"name": "json", "content": "{}"}]})
        self.assertIn("'json' is there already", answer.message)
        self.assert_off()

    def test_interrupts_at_any_moment_take_the_policy_off(self):
        code = "import colorsys\nfor i in range(200): pass\nprint(i)\nkept = i\ni"
        details = details_of(policy=ALL)
        self.assert_interrupts_are_survived(
            lambda: self.kernel.request(1, details, code.encode()), self.assert_off
        )

    def test_signal_handlers_that_raise_anywhere_leave_no_policy(self):
        self.run_ok(
            "import signal\ndef late(*a): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)"
        )
        for microseconds in range(50, 4000, 25):
            policy = {**ALL}
            if HAS_MONITORING:
                policy["max_work"] = 1000 if microseconds % 2 else 1_000_000
            answer = self.kernel.run(
                "signal.setitimer(signal.ITIMER_REAL, %f)\nfor i in range(300): pass\nprint(i)"
                % (microseconds / 1e6),
                policy=policy,
            )
            work = (answer.account or {}).get("work", 0)
            self.assertTrue(0 <= work <= 310, answer)
            while self.kernel.run("signal.setitimer(signal.ITIMER_REAL, 0)").completion != "ok":
                pass
            self.assert_off()
        self.assert_usable()


class Imports(PolicyTest):
    def refused(self, code, rule):
        answer = self.held(code, "error", imports=rule)
        self.assertEqual(answer.exception, "vivarium.ImportNotAllowed", answer)
        return answer.message

    def test_only_what_is_allowed_can_be_imported(self):
        self.held(
            "import math, os.path\nfrom os import path", imports={"allow": ["math", "os.path"]}
        )
        message = self.refused("import maths", {"allow": ["math", "json"]})
        self.assertIn("allowed: json, math; the nearest to it is 'math'", message)
        for code in (
            "import os",
            "from os import getcwd",
            "from os import path, getcwd",
            "__import__('os')",
            "import importlib\nimportlib.import_module('os')",
            "import importlib\nimportlib.import_module('..path', 'os.x')",
            "exec('import os')",
            "def f(): import os\nlist(map(lambda _: f(), [1]))",
        ):
            with self.subTest(code):
                self.refused(code, {"allow": ["importlib", "math", "os.path.x"]})
        self.held("try: import numpy\nexcept ImportError: found = 1\nfound", imports={"allow": []})

    def test_the_exceptions_of_policies_are_in_the_module_vivarium(self):
        code = "import vivarium\ntry: import os\nexcept vivarium.ImportNotAllowed as e: found = e.name\nfound"
        self.assertEqual(self.held(code, imports={"allow": []}).value, "'os'")
        code = "from vivarium import *\nissubclass(WorkLimitExceeded, Exception), WorkLimitExceeded.__module__"
        self.assert_value(code, "(False, 'vivarium')")

    def test_what_is_denied_cannot_be_imported(self):
        self.held("import json.decoder, os\nfrom json import loads", imports={"deny": ["socket"]})
        for code in (
            "import json",
            "import json.decoder",
            "from json import decoder",
            "from json import decoder as it",
        ):
            with self.subTest(code):
                self.assertIn("denied: json", self.refused(code, {"deny": ["json"]}))
        self.held("from json import loads", imports={"deny": ["json.decoder"]})
        self.refused("from json import decoder", {"deny": ["json.decoder"]})

    def test_libraries_import_what_they_like(self):
        code = "import datetime, colorsys, csv\ndatetime.datetime.strptime('2020', '%Y').year"
        allowed = {"allow": ["datetime", "colorsys", "csv"]}
        self.assertEqual(self.held(code, imports=allowed).value, "2020")
        self.refused("import _strptime", allowed)

    def test_files_of_the_workdir_are_tenant_code(self):
        os.mkdir(self.workdir + "/package")
        for name, source in (
            ("helper.py", "import os"),
            ("package/__init__.py", "from . import inner"),
            ("package/inner.py", "from .last import x"),
            ("package/last.py", "x = 1"),
        ):
            with open(self.workdir + "/" + name, "w") as file:
                file.write(source)
        self.refused("import helper", {"allow": []})
        self.refused("import helper", {"allow": ["helper"]})
        self.held("import helper", imports={"allow": ["helper", "os"]})
        self.held("import package", imports={"allow": ["package"]})

    def test_host_modules_and_ours_are_always_allowed(self):
        code = "from __future__ import annotations\nimport host, vivarium\nhost.a"
        given = [{"name": "host", "content": '{"a": 1}'}]
        self.assertEqual(self.held(code, modules=given, imports={"allow": []}).value, "1")


class AuditEvents(PolicyTest):
    def test_events_of_the_execution_are_counted(self):
        code = "import sys\nfor _ in range(3): open('/dev/null').close()\nsys.audit('mine', 1)"
        for _ in range(2):
            counts = self.held(code, audit_events={"deny": []}).account["audit_events"]
            self.assertEqual((counts["open"], counts["mine"]), (3, 1))
        self.assertIsNone(self.run_ok(code).account)

    def test_the_kernels_own_events_do_not_count(self):
        self.held("1", audit_events={"deny": []})
        self.assertEqual(self.held("x = 1", audit_events={"deny": []}).account["audit_events"], {})

    def test_counts_are_the_same_in_the_first_execution_as_later(self):
        code = "import sys\nsys.audit('mine')\ntry: import maths\nexcept ImportError: pass"
        policy: dict = {"imports": {"allow": ["math", "sys"]}, "audit_events": {"deny": ["open"]}}
        if HAS_MONITORING:
            policy["max_work"] = 1000
        for _ in range(3):
            self.assertEqual(self.held(code, **policy).account["audit_events"], {"mine": 1})

    def test_denied_events_raise_in_libraries_too_but_imports_go_on(self):
        deny = {"deny": ["open", "subprocess.Popen"]}
        for code in ("open('/dev/null')", "import subprocess\nsubprocess.run(['true'])"):
            answer = self.held(code, "error", audit_events=deny)
            self.assertEqual(answer.exception, "PermissionError", answer)
            self.assertIn("is denied in this execution", answer.message)
        self.held("import colorsys, wave", audit_events=deny)
        self.run_ok("open('/dev/null').close()")

    def test_a_list_of_imports_changes_no_event(self):
        code = "import colorsys, wave\nimport importlib\nimportlib.import_module('this')"
        counts = []
        for imports in (
            None,
            {"deny": ["socket"]},
            {"allow": ["colorsys", "wave", "importlib", "this"]},
        ):
            kernel = self.start()
            answer = kernel.run(code, policy={"imports": imports, "audit_events": {"deny": []}})
            self.assertEqual(answer.completion, "ok", answer)
            counts.append(answer.account["audit_events"])
        self.assertGreaterEqual(counts[0]["import"], 2)
        self.assertEqual(counts, counts[:1] * 3)
        for imports in (None, {"allow": ["colorsys"]}):
            kernel = self.start()
            policy = {"imports": imports, "audit_events": {"deny": ["import"]}}
            answer = kernel.run("import colorsys", policy=policy)
            self.assertEqual(answer.exception, "PermissionError", answer)
            self.assertIn("'import' is denied", answer.message)
            policy["audit_events"] = {"deny": ["open"]}
            self.assertEqual(kernel.run("import colorsys", policy=policy).completion, "ok")

    def test_there_are_so_many_names_and_no_more(self):
        code = "import sys\nfor i in range(300): sys.audit('é\\x01 %d' % i * 50)"
        counts = self.held(code, audit_events={"deny": []}).account["audit_events"]
        self.assertEqual(len(counts), 257)
        self.assertGreaterEqual(counts["other"], 44)

    def test_denied_events_have_their_names_among_any_number_of_others(self):
        code = (
            "import sys\nfor i in range(300): sys.audit('%d' % i)\n"
            "for name in ('wanted', 'wanted', 'other', 'late'):\n"
            "    try: sys.audit(name)\n    except PermissionError: pass"
        )
        deny = {"deny": ["wanted", "late"]}
        counts = self.held(code, audit_events=deny).account["audit_events"]
        self.assertEqual((counts["wanted"], counts["late"], len(counts)), (2, 1, 257))
        self.assertEqual(sum(counts.values()), 304)
        code = "import sys\nfor i in range(300):\n    try: sys.audit('%d' % i)\n    except PermissionError: pass"
        deny = {"deny": ["%d" % i for i in range(300)]}
        counts = self.held(code, audit_events=deny).account["audit_events"]
        self.assertEqual((len(counts), counts["other"]), (257, 44))


class Shown(PolicyTest):
    def test_echo_says_what_is_shown(self):
        code = "1\n'a'; None\nif True:\n    2\nx = 3\n[x]\nx"
        answer = self.held(code, echo="all")
        shown = [display.mime["text/plain"] for display in answer.displays]
        self.assertEqual((shown, answer.value), ([b"1", b"'a'", b"[3]"], "3"))
        answer = self.held(code, echo="none")
        self.assertEqual((answer.displays, answer.value), ([], None))
        answer = self.held(code, echo="last", prints=True)
        self.assertEqual((answer.displays, answer.value), ([], "3"))
        answer = self.held("await __import__('asyncio').sleep(0, 5)\n6", echo="all")
        self.assertEqual(
            ([it.mime["text/plain"] for it in answer.displays], answer.value), ([b"5"], "6")
        )
        code = "'doc'\nfrom __future__ import annotations\n1\n'text'\n__doc__"
        answer = self.held(code, echo="all")
        shown = [display.mime["text/plain"] for display in answer.displays]
        self.assertEqual((shown, answer.value), ([b"1", b"'text'"], "'doc'"))
        self.assertIn("    1/0", self.held("1\n1/0\n2", "error", echo="all").traceback)

    def test_printed_values_are_noted_with_bounds(self):
        answer = self.held("print(1, 'a', [2], sep='-')\nprint()", prints=True)
        self.assertEqual(answer.stdout, "1-a-[2]\n\n")
        self.assertEqual(answer.account["prints"], [["1", "'a'", "[2]"], []])
        noted = self.held("for i in range(3000): print(i)", prints=True).account["prints"]
        self.assertEqual(noted, [[str(i)] for i in range(1000)])
        noted = self.held("print(*range(100), 'x')", prints=True).account["prints"]
        self.assertEqual(noted, [[str(i) for i in range(64)]])
        code = "for i in range(500): print('\\x01\\udc80é' * 2000)"
        noted = self.held(code, prints=True).account["prints"]
        self.assertTrue(1 < len(noted) < 500, len(noted))
        self.assertEqual({len(values[0]) for values in noted if values}, {1000})

    def test_what_libraries_print_is_not_noted_and_a_bad_repr_is(self):
        code = "import pprint, this\nclass Bad:\n    def __repr__(self): 1/0\n    __str__ = object.__repr__\nprint(Bad())"
        noted = self.held(code, prints=True).account["prints"]
        self.assertEqual(len(noted), 1)
        self.assertIn("repr raised ZeroDivisionError", noted[0][0])


class Given(PolicyTest):
    def test_a_module_of_the_client_is_there_for_one_execution_and_read_only(self):
        given = [{"name": "host", "content": '{"a": [1], "b": {"c": null}, "__name__": "x"}'}]
        code = "import host\nfrom host import a\n(a, host.b, host.__name__)"
        answer = self.held(code, modules=given)
        self.assertEqual(answer.value, "([1], {'c': None}, 'host')")
        for code in ("host.a = 1", "del host.a", "host.new = 1"):
            answer = self.held("import host\n" + code, "error", modules=given)
            self.assertEqual(
                (answer.exception, answer.message), ("AttributeError", "module 'host' is read-only")
            )
        self.run_error("import host", "ModuleNotFoundError")

    def test_kept_names_leave_the_rest_as_it_was(self):
        self.run_ok("before = changed = 1")
        code = "changed = new = kept = 2\ndel before\n5"
        self.assertEqual(self.held(code, names={"keep": ["kept"]}).value, "5")
        names = "before, changed, kept, 'new' in globals()"
        self.assert_value(names, "(1, 1, 2, False)")
        self.held("changed = kept = 3\n1/0", "error", names={"keep": ["kept"]})
        self.assert_value(names, "(1, 1, 3, False)")
        self.assert_value("7", "7")
        self.held("8", names={"keep": []})
        self.assert_value("_", "7")

    def test_dropped_names_are_gone_after_an_error_too(self):
        self.run_ok("secret = 1")
        self.held("other = secret\nsecret = 2\n1/0", "error", names={"drop": ["secret", "none"]})
        self.assert_value("other, 'secret' in globals()", "(1, False)")

    def test_a_namespace_with_odd_keys_is_put_back(self):
        code = "class Odd(str):\n    __hash__ = str.__hash__\n    def __eq__(self, other): 1/0\nglobals()[Odd('x')] = 1\nglobals()[5] = 2"
        self.held(code, names={"keep": []})
        self.assert_value("[name for name in globals() if type(name) is not str]", "[]")
        self.assert_usable()


@unittest.skipIf(HAS_MONITORING, "this Python has sys.monitoring")
class NoWork(PolicyTest):
    def test_older_pythons_refuse_max_work_by_name(self):
        answer = self.held("1", "error", max_work=5)
        version = "%d.%d" % sys.version_info[:2]
        text = "max_work needs Python 3.12 or later; this environment has " + version
        self.assertEqual((answer.exception, answer.message), ("RuntimeError", text))
        self.assert_off()


@unittest.skipUnless(HAS_MONITORING, "max_work needs Python 3.12")
class Work(PolicyTest):
    def work(self, code, completion="ok", max_work=100_000):
        return self.held(code, completion, max_work=max_work).account["work"]

    def exceeded(self, code, max_work=100):
        answer = self.held(code, "work_limit", max_work=max_work)
        self.assertEqual(answer.exception, "vivarium.WorkLimitExceeded", answer)
        self.assertEqual(answer.message, "max_work of %d ticks is used up" % max_work)
        self.assertEqual(answer.account["work"], max_work)
        self.assertNotIn("vivarium/", answer.traceback)
        self.assert_off()
        return answer

    def test_the_exception_is_the_one_of_the_module_vivarium(self):
        code = "import vivarium\ndef f():\n    while True: pass\ntry: f()\nexcept vivarium.WorkLimitExceeded: caught = 1"
        self.held(code, "work_limit", max_work=1000)
        self.assert_value("caught", "1")

    def test_jumps_calls_and_resumptions_are_ticks(self):
        for code, ticks in (
            ("1+1", 1),
            ("for i in range(50): pass", 51),
            ("i = 0\nwhile i < 50: i += 1", None),
            ("def f(): pass\nfor i in range(10): f()", 21),
            ("def f(n): return n and f(n - 1)\nf(20)", 23),
            ("def g():\n    yield 1\n    yield 2\nlist(g())", 5),
            ("if 1:\n    x = 1\nelse:\n    x = 2", 1),
            ("sum(range(1000)); sorted(range(1000))", 2),
        ):
            with self.subTest(code):
                found = self.work(code)
                self.assertEqual(found, found if ticks is None else ticks)
                self.assertGreaterEqual(found, 1)

    def test_counts_are_the_same_in_repeated_runs(self):
        code = (
            "import dataclasses, json, re, asyncio\n"
            "@dataclasses.dataclass\nclass P:\n    x: int = 0\n"
            "def g(n):\n    for i in range(n): yield i\n"
            "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
            "async def a(n):\n    for _ in range(n): await asyncio.sleep(0)\n"
            "found = []\n"
            "for i in range(50):\n"
            "    try:\n        if i % 3: raise ValueError(i)\n        found.append(P(i))\n"
            "    except ValueError as error: found += [x for x in g(5) if x % 2]\n"
            "    finally: found.sort(key=lambda it: str(it))\n"
            "fib(12); json.dumps({str(i): re.sub('a', lambda m: 'b', 'aaa') for i in range(20)})\n"
            "await asyncio.gather(a(5), a(6))\n"
            "it = g(9)\nfor _ in zip(it, it): pass\n"
            "class C:\n    def __lt__(self, other): return True\nsorted([C() for _ in range(9)])\n"
        )
        counts = {self.work(code) for _ in range(4)}
        self.assertEqual(len(counts), 1, counts)
        other = self.start()
        answer = other.run(code, policy={"max_work": 100_000})
        self.assertEqual({answer.account["work"]}, counts)
        (count,) = counts
        self.assertEqual(self.work(code, max_work=count), count)
        self.work(code, "work_limit", max_work=count - 1)

    def test_over_the_limit_the_state_is_kept_and_the_next_execution_runs(self):
        self.exceeded("x = 1\nwhile True: x += 1")
        self.assert_value("x > 50", "True")
        self.assert_value("for i in range(100_000): pass\ni", "99999")
        self.assert_usable()

    def test_code_that_catches_the_exception_does_not_go_on(self):
        for code in (
            "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
            "def f():\n    try: f()\n    except BaseException: f()\nf()",
            "try:\n    while True: pass\nfinally:\n    while True: pass",
            "class C:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\n"
            "while True:\n    with C():\n        while True: pass",
            "try:\n    while True: pass\nexcept BaseException: pass\nx = 5",
            "try:\n    while True: pass\nexcept BaseException: raise SystemExit(0)",
            "def g():\n    while True:\n        try: yield\n        except BaseException: pass\nfor _ in g(): pass",
            "import asyncio\nasync def f():\n    while True:\n        try: await asyncio.sleep(0)\n        except BaseException: pass\nawait f()",
            "exec('while True: pass')",
            "eval('[0 for _ in iter(int, 1)]')",
            "list(map(lambda x: x, iter(int, 1)))",
        ):
            with self.subTest(code):
                self.exceeded(code)
        self.assert_usable()

    def test_functions_and_generators_of_earlier_executions_count(self):
        self.run_ok(
            "def f():\n    for _ in range(20): pass\ndef g():\n    while True: yield\nit = g()\nnext(it)\nf()"
        )
        self.assertEqual(self.work("f()"), 22)
        self.exceeded("for _ in it: pass")

    def test_libraries_do_not_count_and_files_of_the_workdir_do(self):
        self.assertEqual(self.work("import json\njson.dumps([[i] for i in (1, 2)], indent=1)"), 4)
        with open(self.workdir + "/looping.py", "w") as file:
            file.write("for i in range(30): pass\ndef f():\n    for i in range(10): pass\n")
        self.assertEqual(self.work("import looping\nlooping.f()"), 2 + 31 + 11)

    def test_threads_count_together(self):
        code = (
            "import threading\ndef f():\n    for _ in range(100): pass\n"
            "threads = [threading.Thread(target=f) for _ in range(4)]\n"
            "for t in threads: t.start()\nfor t in threads: t.join()"
        )
        self.assertEqual(self.work(code), 1 + 1 * 4 + 4 + 4 + 4 * 101)
        code = "import threading\ndef f():\n    while True: pass\nt = threading.Thread(target=f)\nt.start()\nt.join()"
        self.held(code, "work_limit", max_work=1000)
        self.assert_value("t.join(10); t.is_alive()", "False")

    def test_an_interrupt_of_limited_code_is_an_interrupt(self):
        for code in ("while True: pass", "while True: eval('1')", "import time; time.sleep(100)"):
            self.held("print('go')\n" + code, "interrupted", interrupts=1, max_work=10**15)
            self.assert_off()

    def test_an_exception_as_a_policy_begins_has_no_account_of_an_earlier_one(self):
        # As a signal handler would raise there.
        replaced = "part = %s\noriginal = part.%s\ndef late(*a): raise TimeoutError\npart.%s = late"
        for part, function in (("policy", "begin"), ("work_native", "counter")):
            for earlier, completion in (("1", "ok"), ("while True: pass", "work_limit")):
                with self.subTest(part=part, earlier=earlier):
                    self.held(earlier, completion, max_work=1000)
                    self.run_ok(replaced % (part_of_kernel(part), function, function))
                    answer = self.held("1", "error", max_work=5)
                    self.assertEqual(answer.exception, "TimeoutError", answer)
                    self.assertEqual(answer.account, {})
                    self.run_ok("part.%s = original" % function)
                    self.assertEqual(self.work("1"), 1)
        self.assert_off()

    def test_code_finds_no_tool_left_and_may_take_all(self):
        code = "import sys\nfor it in range(6):\n    if sys.monitoring.get_tool(it) is None: sys.monitoring.use_tool_id(it, 'mine')"
        self.run_ok(code)
        answer = self.held("1", "error", max_work=5)
        self.assertIn("all are in use", answer.message)
        self.run_ok("for it in range(6): sys.monitoring.free_tool_id(it)")
        self.assertEqual(self.work("1"), 1)
        self.assert_off()


LIBRARY = os.environ.get("VIVARIUM_TEST_LIBRARY", "")


class Native(PolicyTest):
    """Kernels whose work is counted by the agent's library."""

    def start(self, **environment):
        kernel = super().start(**environment)
        code = (
            "import ctypes\npart = %s\nvars(part)['__builtins__']['__import__']('kernel_image').state.library ="
            " ctypes.PyDLL(%r)\ndel part" % (part_of_kernel("guard"), LIBRARY)
        )
        answer = kernel.run(code)
        self.assertEqual(answer.completion, "ok", answer)
        return kernel


@unittest.skipUnless(HAS_MONITORING and LIBRARY, "VIVARIUM_TEST_LIBRARY names no library")
class NativeLifetime(Native, Lifetime):
    pass


@unittest.skipUnless(HAS_MONITORING and LIBRARY, "VIVARIUM_TEST_LIBRARY names no library")
class NativeAuditEvents(Native, AuditEvents):
    pass


@unittest.skipUnless(HAS_MONITORING and LIBRARY, "VIVARIUM_TEST_LIBRARY names no library")
class NativeWork(Native, Work):
    def test_the_library_counts(self):
        self.work("1")
        code = "work = %s\ntype(work.state.counter).__name__" % part_of_kernel("work")
        self.assert_value(code, "'NativeCounter'")
