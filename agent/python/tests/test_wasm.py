"""What holds in the runtime `wasm` alone: its walls, its limits, and what it does for itself."""

import importlib.util
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock
from typing import Any

from harness import ROOT, TIMEOUT_S, WASM, KernelTest

GUEST = ROOT.parent.parent / "runtimes/wasm/guest"


class Inspection(unittest.TestCase):
    """What the guest tries before anything is claimed of it, here where nothing holds."""

    def setUp(self):
        stand_ins = types.ModuleType("stand_ins")
        vars(stand_ins)["attach"] = lambda: 7
        with unittest.mock.patch.dict(sys.modules, stand_ins=stand_ins):
            spec = importlib.util.spec_from_file_location("inspection", GUEST / "inspection.py")
            assert spec and spec.loader
            self.inspection: Any = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self.inspection)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.directory = scratch.name + "/inside"
        os.mkdir(self.directory)
        pathlib.Path(self.directory, "file").write_text("inside")
        pathlib.Path(scratch.name, "outside").write_text("outside")
        pathlib.Path(self.directory, "link").symlink_to("../outside")

    def test_every_attempt_succeeds_where_nothing_holds(self):
        for name, (_, ways) in self.inspection.attempts(self.directory).items():
            for function, *args in ways:
                with self.subTest(name, way=function.__name__, args=args):
                    function(*args)

    def test_nothing_is_claimed_where_nothing_holds(self):
        answer = self.inspection.inspect(self.directory)
        claims = set(self.inspection.attempts(self.directory))
        self.assertLessEqual(claims, set(answer["missing"].split("; ")))
        works = "files in preopened directories; signals reach the interpreter"
        self.assertEqual(answer["enforced"], works)
        os.unlink(self.directory + "/file")
        self.assertNotIn("files in", self.inspection.inspect(self.directory)["enforced"])


@unittest.skipUnless(WASM, "for the runtime wasm")
class WasmTest(KernelTest):
    def refused(self, code, exception):
        answer = self.run_error(code, exception)
        self.assertIn("in runtime wasm: use an environment with runtime cpython", answer.message)


class Memory(WasmTest):
    def test_references_to_what_the_component_has_are_not_counted(self):
        self.run_ok("import json, sys\nmine = object()")
        count = "refs = sys.getrefcount(%s); more = [%s] * 9; sys.getrefcount(%s) - refs"
        for name, counted in (("json.loads", "0"), ("json", "0"), ("mine", "9")):
            with self.subTest(name):
                self.assert_value(count % (name, name, name), counted)

    def test_a_collector_that_visits_what_the_component_has_ends_nothing_of_it(self):
        self.run_ok("import gc; gc.unfreeze(); gc.collect(); gc.collect()")
        self.run_ok(
            "import sys; [sys.modules.pop(name) for name in ('json', 'json.decoder')]; gc.collect()"
        )
        self.assert_value("import json; json.loads('[1]')", "[1]")
        self.assert_usable()


class Walls(WasmTest):
    def test_files_outside_of_its_directories_cannot_be_named(self):
        workdir = pathlib.Path(self.workdir)
        beside = workdir.with_name(workdir.name + "-beside")
        beside.mkdir()
        self.addCleanup(beside.rmdir)
        secret = beside / "secret"
        secret.write_text("secret")
        self.addCleanup(secret.unlink)
        (workdir / "inside").write_text("inside")
        (workdir / "to-inside").symlink_to("inside")
        (workdir / "to-secret").symlink_to(secret)
        (workdir / "to-beside").symlink_to(beside)
        (workdir / "up").symlink_to("../" + beside.name + "/secret")
        self.assert_value("import os; open('to-inside').read()", "'inside'")
        for path in (
            str(secret),
            "../%s/secret" % beside.name,
            "to-secret",
            "to-beside/secret",
            "up",
            "/etc/passwd",
            "/proc/self/maps",
            "/",
            "..",
        ):
            with self.subTest(path):
                for call in ("open(%r).read()", "os.stat(%r)", "os.listdir(%r)", "os.chdir(%r)"):
                    answer = self.kernel.run(call % path)
                    self.assertEqual((answer.completion, answer.value), ("error", None), answer)
                self.kernel.run("open(%r, 'w').write('taken')" % path)
                self.kernel.run("os.link(%r, 'linked')" % path)
        for path in (str(secret), "to-beside/secret", "/tmp/taken"):
            with self.subTest(path):
                for call in ("os.rename('inside', %r)", "os.unlink(%r)", "os.rename(%r, 'taken')"):
                    self.assertEqual(self.kernel.run(call % path).completion, "error")
        self.assertEqual(secret.read_text(), "secret")
        self.assertEqual(os.listdir(beside), ["secret"])
        self.assertEqual(secret.stat().st_nlink, 1)
        self.assert_value("open('inside').read()", "'inside'")

    def test_sockets_processes_and_threads_are_refused_by_name(self):
        self.refused("import socket; socket.create_connection(('127.0.0.1', 1))", "OSError")
        self.refused("socket.socket()", "OSError")
        self.refused("import subprocess; subprocess.run(['true'])", "OSError")
        self.refused("import os; os.system('true')", "OSError")
        self.refused("os.fork()", "OSError")
        self.refused("import threading; threading.Thread(target=print).start()", "RuntimeError")
        self.refused("import numpy", "ModuleNotFoundError")
        for name in ("ctypes", "bz2", "lzma", "ssl", "compression.zstd", "dbm.gnu", "venv"):
            self.refused("import " + name, "ModuleNotFoundError")
        # Past the refusals, which are only there to say why.
        code = "import _socket\ns = _socket.socket()\ns.connect(('127.0.0.1', %d))"
        listener = listener_on_this_host()
        self.addCleanup(listener.close)
        answer = self.kernel.run(code % listener.getsockname()[1])
        self.assertEqual(answer.completion, "error", answer)
        listener.settimeout(0)
        self.assertRaises(BlockingIOError, listener.accept)

    def test_refusals_raise_audit_events_first(self):
        for code, event in (
            ("import os; os.system('true')", "os.system"),
            ("os.fork()", "os.fork"),
            ("os.execv('/bin/true', ['true'])", "os.exec"),
            ("import subprocess; subprocess.run(['true'])", "subprocess.Popen"),
            ("import socket; socket.socket()", "socket.__new__"),
            ("socket.create_connection(('127.0.0.1', 1))", "socket.getaddrinfo"),
            ("import _thread; _thread.start_new_thread(print, ())", "_thread.start_new_thread"),
        ):
            with self.subTest(code):
                answer = self.kernel.run(code, policy={"audit_events": {"deny": []}})
                self.assertIn("in runtime wasm", answer.message)
                counts = answer.account["audit_events"]
                self.assertEqual(counts.get(event), 1, counts)
                answer = self.kernel.run(code, policy={"audit_events": {"deny": [event]}})
                self.assertEqual(answer.exception, "PermissionError", answer)

    def test_its_process_has_one_thread_whatever_it_does_with_files(self):
        code = """
            import pathlib, select, tempfile, time, zipfile
            file = open('file', 'w+')
            file.write('x' * 1000000); file.flush(); file.seek(0)
            assert select.select([file], [file], [], 1)[:2] == ([file], [file])
            assert len(file.read()) == 1000000
            assert select.select([], [], [], 0.01) == ([], [], [])
            with zipfile.ZipFile('archive.zip', 'w') as archive: archive.write('file')
            [pathlib.Path('dir%d' % n).mkdir() for n in range(10)]
            sorted(path.name for path in pathlib.Path().iterdir())[-3:]
        """
        code = "\n".join(line[12:] for line in code.splitlines())
        self.assert_value(code, "['dir8', 'dir9', 'file']")
        self.assertEqual(len(os.listdir("/proc/%d/task" % self.kernel.process.pid)), 1)

    def test_nothing_of_the_host_is_in_its_environment(self):
        self.assert_value("import os; sorted(os.environ)", str(["HOME", "LANG", "PATH", "TMPDIR"]))
        self.assert_value("import sys; sys.path, sys.argv", "(['', '/python'], [''])")


def found(pattern, text):
    match = re.search(pattern, text)
    assert match, text
    return match[1]


def listener_on_this_host():
    listener = socket.create_server(("127.0.0.1", 0))
    # It can be reached at all.
    socket.create_connection(listener.getsockname()).close()
    listener.accept()[0].close()
    return listener


class Limits(WasmTest):
    def test_memory_that_is_used_up_is_a_memory_error_and_variables_stay(self):
        self.kernel = self.start(max_memory_bytes=200 << 20)
        self.run_ok("kept = 'kept'\ndef fill(x):\n  while True: x.append(bytearray(1 << 20))")
        self.run_error("fill([])", "MemoryError")
        self.assert_value("kept", "'kept'")
        status = pathlib.Path("/proc/%d/status" % self.kernel.process.pid).read_text()
        peak_kib = int(found(r"VmHWM:\s+(\d+)", status))
        self.assertLess(peak_kib, 260 << 10)
        self.assertGreater(peak_kib, 100 << 10)
        self.assert_usable()

    def test_a_file_over_the_limit_is_an_error_and_variables_stay(self):
        self.run_ok("kept = 'kept'\nopen('file', 'wb').write(b'x' * 2_000_000)")
        resource.prlimit(self.kernel.process.pid, resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        for code in (
            "open('file', 'wb').write(b'x' * 2_000_000)",
            "with open('file', 'w') as f:\n    for _ in range(2000): f.write('x' * 1000)",
            "import os; os.truncate('file', 2_000_000)",
        ):
            with self.subTest(code):
                answer = self.run_error(code, "OSError")
                self.assertIn("[Errno 22] File too large", answer.message)
                self.assertNotIn("I/O error", answer.traceback)
        self.assert_value("import errno; kept, errno.EFBIG", "('kept', 22)")

    @unittest.skipIf(os.getuid(), "mounting needs root")
    def test_a_full_disk_is_an_error_by_its_name(self):
        disk = self.workdir + "/disk"
        os.mkdir(disk)
        mount = ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=9", "tmpfs", disk]
        subprocess.run(mount, check=True)
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        kernel = self.start()
        for code in (
            "open('disk/file', 'wb').write(b'x' * 2_000_000)",
            "with open('disk/file', 'w') as f: f.write('x' * 2_000_000)",
            "for n in range(20): open('disk/%d' % n, 'w')",
        ):
            with self.subTest(code):
                answer = kernel.run(code)
                self.assertEqual(answer.exception, "OSError", answer)
                self.assertIn("[Errno 51] No space left on device", answer.message)
        self.assertEqual(kernel.run("import errno; errno.ENOSPC").value, "51")

    def test_without_a_limit_there_is_more(self):
        self.assert_value("len(bytearray(300 << 20))", str(300 << 20))

    def test_deep_recursion_is_an_error_and_variables_stay(self):
        self.run_ok("import sys\nkept = 'kept'\nsys.setrecursionlimit(20000)\ndef f(): f()")
        self.run_error("f()", "RecursionError")
        self.run_error("x = []\nfor _ in range(10**6): x = [x]\nrepr(x)", "RecursionError")
        self.run_error(
            "class A:\n  def __repr__(self): return repr(self)\nrepr(A())", "RecursionError"
        )
        self.assert_value("kept", "'kept'")


class Own(WasmTest):
    def test_sessions_do_not_have_the_same_random_numbers(self):
        code = "import os, random, secrets, uuid\n(random.random(), secrets.token_hex(), uuid.uuid4(), os.urandom(9))"
        self.assertNotEqual(self.run_ok(code).value, self.start().run(code).value)
        for code in ("import random; random.random()", "import tempfile; tempfile.mktemp()"):
            self.assertNotEqual(self.start().run(code).value, self.start().run(code).value)

    def test_a_file_of_the_users_comes_before_a_module_that_is_ready(self):
        pathlib.Path(self.workdir, "statistics.py").write_text("own = 5")
        self.assert_value("import statistics; statistics.own", "5")
        self.assert_value("import json, json.decoder; json.loads('[1]')", "[1]")

    def test_a_library_has_its_source_in_tracebacks(self):
        trace = self.run_error(
            "import json; json.loads('?')", "json.decoder.JSONDecodeError"
        ).traceback
        self.assertIn('File "/python/json/__init__.py"', trace)
        self.assertIn("raise JSONDecodeError", trace)
        self.assert_value("import inspect; 'def loads' in inspect.getsource(json.loads)", "True")

    def test_timers_that_raise_do_not_tear_frames(self):
        code = """
            import signal, time
            raised = shown = 0
            def late(_number, frame):
                while frame is not None and frame.f_code is not work.__code__: frame = frame.f_back
                if frame is not None: raise TimeoutError
            signal.signal(signal.SIGALRM, late)
            began = time.monotonic()
            def goes_on():
                took = time.monotonic() - began
                return took < 2 or took < 25 and (raised < 6 or shown < 101)
            def work():
                global shown
                while goes_on():
                    display('x')
                    shown += 1
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0037)
            while goes_on():
                try: work()
                except TimeoutError: raised += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
        """
        lines = [line[12:] for line in code.splitlines()]
        answer = self.kernel.run("\n".join(lines))
        self.assertEqual(answer.completion, "ok", answer)
        self.assertGreater(int(self.run_ok("raised").value), 5)
        self.assertGreater(len(answer.displays), 100)
        self.assert_usable()

    def test_select_and_poll_wait_and_can_be_interrupted(self):
        code = """
            import select, selectors, time
            file = open('file', 'w+')
            def took(function, *args):
                began = time.monotonic()
                return function(*args), time.monotonic() - began >= 0.05
            poll = select.poll()
            nothing = took(select.select, [], [], [], 0.05), took(poll.poll, 50)
            poll.register(file, select.POLLOUT)
            selector = selectors.DefaultSelector(); selector.register(file, selectors.EVENT_WRITE)
            ready = select.select([file], iter([file]), [], 9), poll.poll(9000) == [(file.fileno(), select.POLLOUT)]
            ready[0] == ([file], [file], []), ready[1], len(selector.select(9)), nothing
        """
        code = "\n".join(line[12:] for line in code.splitlines())
        waited = "((([], [], []), True), ([], True))"
        self.assert_value(code, "(True, True, 1, %s)" % waited)
        self.run_error("select.select([], [], [], -1)", "ValueError")
        for call in ("select.select([], [], [], 1000)", "select.select([], [], [])"):
            with self.subTest(call):
                self.assertEqual(
                    self.kernel.run("print('go')\n" + call, 1).completion, "interrupted"
                )
        self.assertEqual(
            self.kernel.run("print('go')\nselect.poll().poll()", 1).completion, "interrupted"
        )
        self.assert_usable()

    def test_a_signal_handler_can_release_a_lock(self):
        self.assert_value(
            "import signal, threading\nlock = threading.Lock(); lock.acquire()\n"
            "signal.signal(signal.SIGALRM, lambda *_: lock.release())\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.1)\nlock.acquire(), lock.acquire(timeout=0.1)",
            "(True, False)",
        )

    def test_code_that_never_returns_ends_with_the_control_socket(self):
        endless = {
            "a loop": "while True: pass",
            "a loop that catches all": "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
            "a function in C": "print('go'); 7 ** 10 ** 9",
            "a sleep": "import time; print('go'); time.sleep(1000)",
            "a lock": "import threading; print('go'); [(it.acquire(), it.acquire()) for it in [threading.Lock()]]",
            "all signals blocked": "import signal; signal.pthread_sigmask(0, range(1, 64))\nwhile True: pass",
        }
        for name, code in endless.items():
            with self.subTest(name):
                kernel = self.start()
                kernel.begin(code)
                with self.assertRaises(subprocess.TimeoutExpired):
                    kernel.process.wait(0.3)
                kernel.control.close()
                self.assertEqual(kernel.process.wait(TIMEOUT_S), 0)

    def test_a_guest_has_one_timer_however_often_it_asks(self):
        self.run_ok(
            "import time\nattach = time.sleep.__globals__['attach']\nfor _ in range(100): attach()"
        )
        timers = pathlib.Path("/proc/%d/timers" % self.kernel.process.pid).read_text()
        self.assertEqual(timers.count("ClockID:"), 1, timers)
        self.assertEqual(
            self.kernel.run("print('go')\nwhile True: pass", 1).completion, "interrupted"
        )
        self.assert_usable()

    def test_a_signal_does_not_keep_an_idle_kernel_awake(self):
        self.run_ok("import signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)")
        process = self.kernel.process.pid

        def woken():
            status = pathlib.Path("/proc/%d/status" % process).read_text()
            return int(found(r"\nvoluntary_ctxt_switches:\s+(\d+)", status))

        for number in (signal.SIGINT, signal.SIGUSR1):
            with self.subTest(number):
                os.kill(process, number)
                time.sleep(0.3)
                before = woken()
                time.sleep(1)
                self.assertLess(woken() - before, 100)
        self.assert_usable()

    def test_signals_without_a_handler_do_what_they_do(self):
        self.kernel.process.terminate()
        self.assertEqual(self.kernel.process.wait(10), -15)

    def test_a_component_is_compiled_once_for_each_source(self):
        workdir = pathlib.Path(self.workdir)
        programs, cache = workdir / "programs", workdir / "cache"
        programs.mkdir()
        shutil.copy(WASM + "/vivarium-wasm", programs)
        source, log = programs / "python.wasm", programs / "log"
        source.write_bytes(b"source")
        compiler = programs / "vivarium-wasm-compile"
        # Compiling takes minutes.
        compiler.write_text(
            '#!/bin/sh\necho compiled >>%s\ncp %s/python.cwasm "$3"\nchmod 644 "$3"\n' % (log, WASM)
        )
        compiler.chmod(0o755)

        def inspect():
            command = [str(programs / "vivarium-wasm"), "inspect", "--cache", str(cache)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            component = pathlib.Path(json.loads(done.stdout)["component"])
            compiled = [path for path in cache.iterdir() if path.name.startswith("python")]
            self.assertEqual(compiled, [component])
            return len(log.read_text().splitlines())

        self.assertEqual([inspect(), inspect()], [1, 1])
        # An earlier release has an older file.
        os.utime(source, (1, 1))
        (cache / "python-6-1-0.cwasm.99").write_bytes(b"half done")
        self.assertEqual([inspect(), inspect()], [2, 2])

    def test_inspect_finds_all_in_force_and_the_interpreter_where_the_guest_expects_it(self):
        command = [WASM + "/vivarium-wasm", "inspect", "--cache", self.workdir + "/cache"]
        trials = self.workdir + "/trials"
        os.mkdir(trials)
        env = {**os.environ, "TMPDIR": trials}
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=env)
        answer = json.loads(done.stdout)
        self.assertEqual((answer["missing"], answer["engine"]), ("", "wasmtime"))
        for claim in ("no file but those", "no sockets", "no threads", "no processes"):
            self.assertIn(claim, answer["enforced"])
        # What it has tried to get out of.
        self.assertEqual(os.listdir(trials), [])
        expected = found(r"RUNTIME_AT = (\d+)", (GUEST / "stand_ins.py").read_text())
        self.assertEqual(answer["runtime_at"], int(expected))
