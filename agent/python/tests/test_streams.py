"""Standard input, output and error, and what code does to them."""

import pathlib
import select

from harness import TIMEOUT_S, Answer, KernelTest


class Streams(KernelTest):
    def test_reading_standard_input_raises(self):
        for code in (
            "input()",
            "input('prompt? ')",
            "import sys; sys.stdin.read()",
            "sys.stdin.readline()",
            "sys.stdin.buffer.read()",
            "next(sys.stdin)",
            "sys.stdin.buffer.read(10)",
            "sys.stdin.read(1)",
            "sys.__stdin__.read()",
            "import getpass, warnings; warnings.simplefilter('ignore'); getpass.getpass()",
        ):
            with self.subTest(code):
                answer = self.run_error(code, "EOFError")
                self.assertIn("no standard input", answer.message)
                self.assertNotIn("vivarium", answer.traceback)
        self.run_error("sys.stdin.close(); 1/0", "ZeroDivisionError")
        self.run_error("exit()", "SystemExit")
        self.run_error("input()", "EOFError")
        self.run_ok("import io\nsys.stdin = io.StringIO('mine')")
        self.assert_value("input()", "'mine'")

    def test_streams_are_real_files(self):
        self.assert_value(
            "import sys; sys.stdout.fileno(), sys.stderr.fileno(), sys.stdin.fileno()", "(1, 2, 0)"
        )
        self.assertEqual(self.run_ok("sys.stdout.buffer.write(b'raw\\n') and None").stdout, "raw\n")
        self.assert_value("sys.stdout.encoding, sys.stderr.encoding", "('utf-8', 'utf-8')")
        self.assert_value("sys.stdout is sys.__stdout__", "True")

    def test_lone_surrogates_print(self):
        for language in ("C.UTF-8", "C", "POSIX"):
            self.kernel = self.start(LANG=language, LC_ALL=language)
            answer = self.run_ok(
                "import sys\nprint('\\ud800\\udcff\xe9\u20ac')\nprint('\\ud800', file=sys.stderr)"
            )
            self.assertEqual(
                (answer.stdout, answer.stderr), ("\\ud800\\udcff\xe9\u20ac\n", "\\ud800\n")
            )

    def test_logging_keeps_its_stream(self):
        self.run_ok("import logging\nlogging.basicConfig(level='INFO')")
        for _ in range(3):
            self.assertEqual(self.run_ok("logging.info('said')").stderr, "INFO:root:said\n")

    def test_output_of_c_code_and_children_stays_in_order(self):
        answer = self.run_ok(
            "import os\nprint('one')\nos.system('echo two')\nos.write(1, b'three\\n')\nprint('four')"
        )
        self.assertEqual(answer.stdout, "one\ntwo\nthree\nfour\n")

    def test_unfinished_lines_are_flushed(self):
        self.assertEqual(self.run_ok("print('no end', end='')").stdout, "no end")

    def test_one_print_is_one_write(self):
        code = "import os, threading\nr, w = os.pipe()\nsaved = os.dup(1)\nos.dup2(w, 1)\nprint('x' * 1000)\nos.dup2(saved, 1)\nlen(os.read(r, 5000))"
        self.assert_value(code, "1001")

    def test_streams_closed_detached_or_gone_come_back(self):
        for code in (
            "sys.stdout.close()",
            "sys.stdout.detach()",
            "sys.stdout = None",
            "del sys.stdout",
            "sys.stdout.buffer.close()",
            "sys.stderr.close()",
            "sys.stderr.detach()",
            "del sys.stderr",
            "del sys.stdout, sys.stderr, sys.stdin",
            "sys.stdout = open('x', 'w'); sys.stdout.close()",
        ):
            with self.subTest(code):
                self.kernel.run("import sys\n" + code)
                self.assert_usable()

    def test_a_redirect_that_works_stays(self):
        self.run_ok("import sys, io\nsys.stdout = mine = io.StringIO()\nprint('kept')")
        self.assertEqual(self.run_ok("print('more')").stdout, "")
        self.assert_value("mine.getvalue()", "'kept\\nmore\\n'")
        self.run_ok(
            "class Tee:\n  def write(self, s): sys.__stdout__.write(s.upper())\nsys.stdout = Tee()"
        )
        self.assertEqual(self.run_ok("print('tee')").stdout, "TEE\n")
        self.run_ok(
            "class Hostile:\n  def __getattr__(self, n): raise SystemExit\nsys.stdout = Hostile()"
        )
        self.assert_value("1+1", "2")

    def test_a_stream_that_hangs_is_interrupted(self):
        code = "import sys\nclass H:\n  def write(self, s): pass\n  def flush(self):\n    print('go', file=sys.__stdout__)\n    while True: x = 5\nsys.stdout = H()"
        self.run_ok(code, 1)
        self.run_ok("sys.stdout = None", 1)
        self.assert_usable()

    def test_threads_print_between_executions(self):
        self.run_ok(
            "import os, threading, time\ndef late():\n"
            "  while not os.path.exists('go'): time.sleep(0.01)\n"
            "  print('late')\nthreading.Thread(target=late).start()"
        )
        pathlib.Path(self.workdir, "go").touch()
        answer = Answer()
        ready, _, _ = select.select([self.kernel.out], [], [], TIMEOUT_S)
        self.kernel.drain(answer, ready)
        self.assertEqual(answer.stdout, "late\n")
        self.assert_usable()
