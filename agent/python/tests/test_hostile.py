"""The kernel answers after forks, deaths and tampering, and the session stays usable."""

import pathlib
import signal
import sys
import time
import unittest

from harness import TIMEOUT_S, KernelTest


class Processes(KernelTest):
    def test_a_forked_child_never_answers(self):
        answer = self.run_ok(
            "import os, sys\npid = os.fork()\nprint('child' if pid == 0 else 'parent')\npid and os.waitpid(pid, 0)[1]"
        )
        self.assertEqual(sorted(answer.stdout.split()), ["child", "parent"])
        self.assertEqual(answer.value, "0")
        answer = self.run_ok(
            "pid = os.fork()\nif pid == 0: 1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
        )
        self.assertEqual(answer.value, "1")
        self.assertIn("ZeroDivisionError", answer.stderr)
        for code, status in (
            ("sys.exit(7)", 7),
            ("sys.exit()", 0),
            ("sys.exit('bye')", 1),
            ("raise KeyboardInterrupt", 1),
        ):
            answer = self.run_ok(
                "pid = os.fork()\nif pid == 0: %s\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
                % code
            )
            self.assertEqual(answer.value, str(status), code)
        self.assert_usable()

    def test_a_child_forked_by_libc_never_answers(self):
        code = (
            "import ctypes, os\npid = ctypes.CDLL(None).fork()\nif pid: os.waitpid(pid, 0)\n'done'"
        )
        self.assert_value(code, "'done'")
        self.assert_usable()

    def test_children_do_not_hold_the_control_socket(self):
        self.assert_value(
            "import subprocess, os\nsubprocess.run('ls /proc/self/fd', shell=True, close_fds=False, stdout=-1).stdout.split()[:3]",
            "[b'0', b'1', b'2']",
        )
        self.assert_value(
            "r, w = os.pipe()\nos.dup2(w, 50)\npid = os.fork()\nif pid == 0:\n  os.write(w, b'open' if os.path.exists('/proc/self/fd/3') and 'socket' in os.readlink('/proc/self/fd/3') else b'shut'); os._exit(0)\nos.waitpid(pid, 0)\nos.read(r, 10)",
            "b'shut'",
        )

    def test_a_grandchild_keeps_its_own_descriptor_three(self):
        code = (
            "import os\nr, w = os.pipe()\npid = os.fork()\nif pid == 0:\n"
            "  os.dup2(w, 3)\n  if os.fork() == 0: os.write(3, b'grandchild')\n"
            "  else: os.wait()\n  os._exit(0)\nos.waitpid(pid, 0)\nos.close(w)\nos.read(r, 100)"
        )
        self.assert_value(code, "b'grandchild'")

    def test_multiprocessing_works_with_every_start_method(self):
        pathlib.Path(self.workdir, "work.py").write_text("def triple(x): return 3 * x")
        self.run_ok(
            "import multiprocessing as mp, work\nfrom concurrent.futures import ProcessPoolExecutor\ndef double(x): return 2 * x"
        )
        self.assert_value("with mp.Pool(2) as p: r = p.map(double, [1, 2])\nr", "[2, 4]")
        self.assert_value(
            "with ProcessPoolExecutor(2) as p: r = list(p.map(double, [1, 2]))\nr", "[2, 4]"
        )
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                code = (
                    "with mp.get_context(%r).Pool(1) as p: r = p.map(work.triple, [1, 2])\nr"
                    % method
                )
                answer = self.run_ok(code)
                self.assertEqual((answer.value, answer.stderr), ("[3, 6]", ""))
        answer = self.run_ok(
            "p = mp.Process(target=print, args=('hi',)); p.start(); p.join(); p.exitcode"
        )
        self.assertEqual((answer.value, answer.stdout), ("0", "hi\n"))
        self.assert_usable()

    def test_the_kernel_ends_with_the_status_of_its_death(self):
        for code, status in (
            ("import os; os._exit(3)", 3),
            ("import os; os.abort()", -signal.SIGABRT),
            ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ):
            with self.subTest(code):
                self.kernel = self.start()
                self.assertEqual(self.kernel.run(code).exited, status)

    def test_the_kernel_ends_when_its_process_is_broken(self):
        for code, status in (
            ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
            ("import os; os.closerange(0, 1024)", 71),
            ("import os; os.close(3)", 71),
            ("import os; os.dup2(os.open('/dev/null', os.O_RDWR), 3)", 0),
        ):
            with self.subTest(code):
                self.kernel = self.start()
                self.assertEqual(self.kernel.run(code).exited, status)

    def test_a_closed_control_socket_ends_the_kernel(self):
        self.run_ok("import threading\nthreading.Thread(target=threading.Event().wait).start()")
        self.kernel.control.close()
        self.assertEqual(self.kernel.process.wait(TIMEOUT_S), 0)

    def test_the_kernel_answers_after_its_output_is_closed(self):
        self.run_ok("import os\nos.close(1); os.close(2)")
        self.assert_value("1+1", "2")
        self.run_error("1/0", "ZeroDivisionError")
        self.run_error("print(1)", "OSError")
        self.assert_value("1+1", "2")

    def test_the_kernel_answers_after_its_socket_is_made_nonblocking(self):
        self.run_ok("import os; os.set_blocking(3, False)")
        time.sleep(0.1)
        self.assertEqual(
            len(self.run_ok("import os; os.set_blocking(3, False)\n'x' * 3000000").value), 1 << 20
        )
        self.assert_usable()


class Tampering(KernelTest):
    def test_the_session_is_usable_after_tampering(self):
        everything = (
            "for n in dir(builtins):\n    if not n.startswith('_'): setattr(builtins, n, None)"
        )
        for code in (
            "import builtins\n" + everything,
            "import builtins\nfor n in ('compile', 'exec', 'eval', 'repr', '__import__', 'open', 'isinstance', 'getattr', 'type', 'Exception', 'BaseException', 'KeyboardInterrupt'): setattr(builtins, n, lambda *a, **k: 1/0)",
            "import builtins; vars(builtins).clear()",
            "import os, posix\nos.write = os.read = os._exit = posix.write = posix.read = posix.getpid = None",
            "import sys\nsys.settrace(lambda *a: 1/0)",
            "import sys\nsys.setprofile(lambda *a: 1/0)",
            "import sys\nsys.settrace(lambda *a: exec('raise SystemExit'))\ndef f(): pass",
            "import sys\nsys.modules.clear()",
            "import sys\nsys.modules['__main__'] = None",
            "import sys\nsys.modules = {}",
            "import sys\nsys.meta_path.clear(); sys.path.clear(); sys.path_hooks.clear()",
            "import sys\nsys.exit = sys.exc_info = sys.excepthook = sys.displayhook = sys.settrace = None",
            "del __builtins__",
            "__builtins__ = 5",
            "__builtins__ = {}",
            "globals().clear()",
            "import threading; threading.excepthook = None",
            "import gc; gc.disable(); gc.callbacks.append(lambda *a: 1/0); gc.collect()",
            "import linecache; linecache.cache = None",
            "import traceback; traceback.format_exception = lambda *a: [5]",
            "import traceback; traceback.TracebackException = None",
            "import signal; signal.signal = None",
            "import codecs; codecs.lookup = None",
            "import ast; ast.parse = None",
            "import sys\nsys.setrecursionlimit(30)\n",
            "import sys\nsys.unraisablehook = None\nclass D:\n  def __del__(self): 1/0\nD()",
            "import sys, _thread\n_thread.interrupt_main()",
        ):
            with self.subTest(code):
                self.kernel = self.start()
                answer = self.kernel.run(code)
                self.assertIsNotNone(answer.completion, answer)
                self.assert_value("x = 1\nx", "1")
                answer = self.kernel.run("not_defined")
                self.assertEqual(
                    (answer.completion, answer.exception), ("error", "NameError"), answer
                )
                self.assertIn("not_defined", answer.traceback)

    @unittest.skipIf(sys.version_info < (3, 12), "sys.monitoring is of 3.12")
    def test_monitoring_ends_with_its_execution(self):
        self.kernel.run(
            "import sys\nm = sys.monitoring\nm.use_tool_id(1, 'x')\nm.register_callback(1, m.events.PY_START, lambda *a: 1/0)\nm.set_events(1, m.events.PY_START)"
        )
        self.assert_usable()

    def test_tracing_does_not_see_the_kernel(self):
        self.run_ok(
            "import sys\nseen = []\nsys.settrace(lambda frame, *a: seen.append(frame.f_code.co_filename))\n(lambda: 1)()"
        )
        self.assert_value("[name for name in seen if 'report' in name or 'wire' in name]", "[]")

    def test_the_session_is_usable_after_tiny_recursion_limits(self):
        self.run_ok("import sys")
        for limit in (8, 12, 20, 50, 150):
            self.kernel.run("sys.setrecursionlimit(%d)" % limit)
            self.assert_usable()

    def test_audit_hooks_may_raise(self):
        self.run_ok(
            "import sys\nbad = False\ndef hook(event, args):\n    if bad and event == 'compile': raise PermissionError('audited')\nsys.addaudithook(hook)"
        )
        self.run_ok("bad = True")
        for _ in range(3):
            self.run_error("1", "PermissionError")

    def test_a_part_that_could_not_be_loaded_is_loaded_later(self):
        self.run_ok(
            "import sys\nbad = False\ndef hook(event, args):\n"
            "    if bad and event == 'exec' and 'show' in str(args[0]): raise PermissionError('audited')\n"
            "sys.addaudithook(hook)"
        )
        self.run_error("bad = True; display(1)", "PermissionError")
        self.assertEqual(len(self.run_ok("bad = False; display(1)").displays), 1)

    def test_the_session_is_usable_after_exceptions_set_by_a_thread(self):
        code = (
            "import ctypes, threading, time\nmain = threading.main_thread().ident\n"
            "def attack():\n  for i in range(50):\n    time.sleep(0.01)\n"
            "    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(main), ctypes.py_object(ValueError))\n"
            "t = threading.Thread(target=attack); t.start()"
        )
        self.kernel.run(code)
        for _ in range(200):
            answer = self.kernel.run("x = 1")
            self.assertIn(answer.completion, ("ok", "error"))
        # One may end the waiting, and others come after it.
        while self.kernel.run("t.join()").exception == "ValueError":
            pass
        self.assert_usable()
