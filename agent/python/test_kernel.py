"""Tests of the kernel as a process, over its own wire and without a sandbox.

Run by any supported interpreter, which is then also the one under test:
`python3 -m unittest` in this directory.
"""

import base64
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
PARTS = ("boot", "guard", "kernel", "report", "sources", "wire")
BOOTSTRAP = (HERE / "bootstrap.py").read_text()
COMPLETIONS = {0: "ok", 1: "error", 2: "interrupted"}
# Generous: this is what a hang costs, not what a test takes.
PATIENCE_S = 30


def inspect():
    sources = {name: (HERE / (name + ".py")).read_text() for name in PARTS}
    script = (HERE / "inspect_interpreter.py").read_text()
    done = subprocess.run(
        [sys.executable, "-s", "-c", script],
        input=json.dumps(sources).encode(), stdout=subprocess.PIPE, check=True,
    )
    return json.loads(done.stdout.decode().rpartition("vivarium-inspect:")[2])


PROGRAM = base64.b64decode(inspect()["program"])


class Answer:
    """All that came of one execution."""

    completion = value = type = exception = message = traceback = None
    mime = ()
    stdout = stderr = ""
    exited = None

    def __repr__(self):
        return repr(vars(self))


class Kernel:
    def __init__(self, workdir, **environment):
        self.control, theirs = socket.socketpair()
        out, err, program = os.pipe(), os.pipe(), os.memfd_create("program")
        os.write(program, PROGRAM)
        env = {"PATH": os.environ["PATH"], "HOME": workdir, "LANG": "C.UTF-8", **environment}

        def descriptors():
            # 3 and 4 may be in use as the ends of other pipes: go through high numbers.
            high = [os.dup2(fd, 200 + at) for at, fd in enumerate((theirs.fileno(), program))]
            for at, fd in enumerate(high):
                os.dup2(fd, 3 + at)
            os.closerange(5, 256)

        self.process = subprocess.Popen(
            [sys.executable, "-s", "-c", BOOTSTRAP], cwd=workdir, env=env, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=out[1], stderr=err[1],
            preexec_fn=descriptors, start_new_session=True,
        )
        for fd in (out[1], err[1], program):
            os.close(fd)
        theirs.close()
        self.out, self.err = out[0], err[0]
        self.inbox = b""
        self.count = 0
        kind, payload = self.frame(Answer())
        assert (kind, payload) == (1, b""), (kind, payload)

    def close(self):
        self.control.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        os.close(self.out)
        os.close(self.err)

    def send(self, kind, payload):
        frame = (len(payload) + 1).to_bytes(4, "little") + bytes([kind]) + payload
        self.control.sendall(frame)

    def frame(self, answer, interrupts=()):
        """The next frame, collecting output meanwhile; None if the kernel is gone."""
        interrupts, began = list(interrupts), time.monotonic()
        while True:
            if len(self.inbox) >= 4:
                end = 4 + int.from_bytes(self.inbox[:4], "little")
                if len(self.inbox) >= end:
                    frame, self.inbox = self.inbox[4:end], self.inbox[end:]
                    return frame[0], frame[1:]
            now = time.monotonic() - began
            if interrupts and now >= interrupts[0]:
                interrupts.pop(0)
                os.killpg(self.process.pid, signal.SIGINT)
            if now > PATIENCE_S:
                raise AssertionError("the kernel does not answer: %r" % answer)
            ready, _, _ = select.select([self.control, self.out, self.err], [], [], 0.02)
            self.drain(answer, ready)
            if self.control in ready:
                try:
                    data = self.control.recv(1 << 20)
                except ConnectionResetError:
                    data = b""
                if not data:
                    return None
                self.inbox += data

    def drain(self, answer, ready):
        for fd, name in ((self.out, "stdout"), (self.err, "stderr")):
            if fd in ready:
                data = os.read(fd, 1 << 20)
                setattr(answer, name, getattr(answer, name) + data.decode("utf-8", "replace"))

    def run(self, code, interrupts=()):
        """Runs code; `interrupts` are seconds after which to send SIGINT."""
        self.count += 1
        answer, number = Answer(), self.count.to_bytes(8, "little")
        code = code.encode()
        self.send(1, number + len(code).to_bytes(4, "little") + code)
        while True:
            frame = self.frame(answer, interrupts)
            if frame is None:
                answer.exited = self.process.wait(PATIENCE_S)
                break
            kind, payload = frame
            assert payload[:8] == number, (payload, answer)
            interrupts, texts = (), Texts(payload[8:])
            if kind == 2:
                answer.value, answer.type = texts.next(), texts.next()
                answer.mime = [(texts.next(), texts.next()) for _ in range(texts.number())]
            elif kind == 3:
                answer.exception, answer.message = texts.next(), texts.next()
                answer.traceback = texts.next()
            elif kind == 4:
                answer.completion = COMPLETIONS[payload[8]]
                texts.rest = texts.rest[1:]
            assert not texts.rest, (kind, texts.rest)
            if kind == 4:
                break
        while True:
            ready, _, _ = select.select([self.out, self.err], [], [], 0)
            before = len(answer.stdout) + len(answer.stderr)
            self.drain(answer, ready)
            if not ready or len(answer.stdout) + len(answer.stderr) == before:
                return answer


class Texts:
    """The strings of a payload, one after the other."""

    def __init__(self, rest):
        self.rest = rest

    def number(self):
        value, self.rest = int.from_bytes(self.rest[:4], "little"), self.rest[4:]
        return value

    def next(self):
        size = self.number()
        text, self.rest = self.rest[:size], self.rest[size:]
        assert len(text) == size
        return text.decode()


class KernelTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.workdir = scratch.name
        self.kernel = self.start()

    def start(self, **environment):
        kernel = Kernel(self.workdir, **environment)
        self.addCleanup(kernel.close)
        return kernel

    def run_ok(self, code, interrupts=()):
        answer = self.kernel.run(code, interrupts)
        self.assertEqual(answer.completion, "ok", answer)
        return answer

    def run_error(self, code, exception, interrupts=()):
        answer = self.kernel.run(code, interrupts)
        self.assertEqual((answer.completion, answer.exception), ("error", exception), answer)
        return answer

    def assert_usable(self):
        self.assertEqual(self.run_ok("1+1").value, "2")
        answer = self.run_ok("print('out')\nimport sys; print('err', file=sys.stderr)\n[3][0]")
        self.assertEqual((answer.stdout, answer.stderr, answer.value), ("out\n", "err\n", "3"))
        self.assertIn("    1/0", self.run_error("1/0", "ZeroDivisionError").traceback)


class Values(KernelTest):
    def test_the_final_expression_is_the_value(self):
        for code, value, kind in (
            ("1+1", "2", "int"),
            ("x = 5\nx", "5", "int"),
            ("x = 5; x", "5", "int"),
            ("x = 5; x;", "5", "int"),
            ("'a'", "'a'", "str"),
            ("def f():\n    return [\n1]\n\n# end\nf()\n\n# end", "[1]", "list"),
            ("(\n1\n)", "1", "int"),
            ("import collections\ncollections.OrderedDict", "<class 'collections.OrderedDict'>", "type"),
            ("import decimal\ndecimal.Decimal(1)", "Decimal('1')", "decimal.Decimal"),
            ("class A:\n  def __repr__(self): return 'A!'\nA()", "A!", "A"),
            ("\ufeff1", "1", "int"),
            ("# -*- coding: latin-1 -*-\n'\xe9'", "'\xe9'", "str"),
            ("a = 1\r\na + 1\r\n", "2", "int"),
            ("a = 1\ra + 2", "3", "int"),
            ("\f1", "1", "int"),
            ("'\\ud800'", "'\\ud800'", "str"),
        ):
            with self.subTest(code):
                answer = self.run_ok(code)
                self.assertEqual((answer.value, answer.type), (value, kind))

    def test_no_value(self):
        for code in ("", " ", "\n\n", "# only a comment", "x = 1", "None", "def f(): pass", "pass"):
            with self.subTest(code):
                self.assertIsNone(self.run_ok(code).value)

    def test_underscore_is_the_last_value_unless_the_code_has_its_own(self):
        self.run_ok("41")
        self.assertEqual(self.run_ok("_ + 1").value, "42")
        self.assertEqual(self.run_ok("None").value, None)
        self.assertEqual(self.run_ok("_").value, "42")
        self.run_ok("_ = 'mine'")
        self.run_ok("7")
        self.assertEqual(self.run_ok("_").value, "'mine'")

    def test_a_repr_that_raises_is_told_and_the_execution_is_ok(self):
        answer = self.run_ok(
            "class A:\n  def __repr__(self): raise ValueError('no')\nA()"
        )
        self.assertEqual(answer.value, "<unrepresentable A object: repr raised ValueError: no>")
        for body in ("raise SystemExit(1)", "return 5", "return repr(self)", "raise Odd()"):
            self.run_ok("class Odd(BaseException):\n  def __str__(self): 1/0\n")
            value = self.run_ok("class A:\n  def __repr__(self): %s\nA()" % body).value
            self.assertIn("unrepresentable A object", value)
        self.assert_usable()

    def test_a_repr_that_hangs_is_interrupted(self):
        answer = self.kernel.run("class A:\n  def __repr__(self):\n    while True: x = 5\nA()", [0.3])
        self.assertEqual(answer.completion, "interrupted")
        self.assertIn("while True: x = 5", answer.traceback)
        self.assert_usable()

    def test_reprs_of_odd_kinds(self):
        code = "class S(str):\n  def encode(self, *a): 1/0\n  def __len__(self): return -1\n"
        self.run_ok(code + "class M(type):\n  __module__ = property(lambda s: 1/0)\n")
        self.assertEqual(self.run_ok("class A:\n  def __repr__(s): return S('fine')\nA()").value, "fine")
        self.assertEqual(self.run_ok("class A(metaclass=M): pass\nA()").type, "A")

    def test_a_long_repr_is_cut(self):
        answer = self.run_ok("'x' * 5_000_000")
        self.assertEqual(len(answer.value), 1 << 20)
        self.assertTrue(answer.value.endswith("[truncated: 5000002 characters in all]"))
        answer = self.run_ok("'\U0001f600' * 1_000_000")
        self.assertLessEqual(len(answer.value.encode()), 1 << 20)
        self.kernel.send(2, (1000).to_bytes(8, "little"))
        answer = self.run_ok("'x' * 5_000_000")
        self.assertEqual(len(answer.value), 500)

    def test_long_sources(self):
        filler = "x = 1\n" * 100_000
        self.assertEqual(self.run_ok(filler + "x + 1").value, "2")
        self.assertEqual(self.run_ok(filler + "x + 2\n\n  # end\n").value, "3")
        self.assertEqual(self.run_ok(filler + "if x:\n  y = 5").value, None)
        self.assertEqual(self.run_ok("y").value, "5")
        self.assertEqual(self.run_ok(filler + "z = '''\ny\n'''").value, None)
        self.assertEqual(self.run_ok("z").value, "'\\ny\\n'")
        trace = self.run_error(filler + "1/0", "ZeroDivisionError").traceback
        self.assertIn('", line 100001, in <module>\n    1/0', trace)
        self.run_error(filler + "1 +", "SyntaxError")
        self.assertEqual(self.run_ok("a = '" + "a" * 10_000_000 + "'\nlen(a)").value, "10000000")


class Main(KernelTest):
    def test_code_is_main(self):
        self.assertEqual(self.run_ok("__name__").value, "'__main__'")
        self.assertEqual(self.run_ok("import sys; sys.modules['__main__'].__dict__ is globals()").value, "True")
        self.run_error("__file__", "NameError")
        self.assertEqual(self.run_ok("sorted(n for n in globals() if not n.startswith('_'))").value, "['sys']")
        self.run_ok("if __name__ == '__main__': print('yes')")
        self.assertEqual(self.run_ok("sys.argv").value, "['']")
        self.assertEqual(self.run_ok("sys.path[0]").value, "''")

    def test_the_runner_is_in_no_module(self):
        answer = self.run_ok(
            "import sys\n[n for n, m in sys.modules.items() if n in"
            " ('boot', 'kernel', 'guard', 'wire', 'report', 'sources')]"
        )
        self.assertEqual(answer.value, "[]")
        self.assertEqual(self.run_ok("import os; sorted(map(int, os.listdir('/proc/self/fd')))[:4]").value, "[0, 1, 2, 3]")

    def test_state_stays(self):
        self.run_ok("x = 1\ndef f(): return x")
        self.run_ok("x = 2")
        self.assertEqual(self.run_ok("f()").value, "2")

    def test_classes_pickle_and_hints_resolve(self):
        self.run_ok("class A:\n  b: 'A' = None\nimport pickle, typing, dataclasses")
        self.assertEqual(self.run_ok("type(pickle.loads(pickle.dumps(A()))) is A").value, "True")
        self.assertEqual(self.run_ok("typing.get_type_hints(A)['b'] is A").value, "True")
        self.assertEqual(self.run_ok("@dataclasses.dataclass\nclass P:\n  x: int\nP(1)").value, "P(x=1)")

    def test_future_imports_last(self):
        self.run_ok("from __future__ import annotations")
        self.assertEqual(self.run_ok("def f(a: missing): pass\nf.__annotations__").value, "{'a': 'missing'}")
        self.assertEqual(self.start().run("1").value, "1")

    def test_workdir_is_importable(self):
        pathlib.Path(self.workdir, "mine.py").write_text("x = 5")
        self.assertEqual(self.run_ok("import mine; mine.x").value, "5")

    def test_files_in_the_workdir_never_shadow_the_runner(self):
        for name in ("traceback", "linecache", "asyncio", "ast", "tokenize", "re", "enum", "io",
                     "signal", "marshal", "posix", "kernel", "guard", "wire", "boot", "sources",
                     "report", "site", "os", "codecs", "encodings", "warnings", "types", "token"):
            pathlib.Path(self.workdir, name + ".py").write_text("raise SystemError(__name__)")
        self.kernel = self.start()
        trace = self.run_error("def f(): pass\nf(1)[\n1]", "TypeError").traceback
        self.assertIn("    f(1)", trace)
        if (3, 11) <= sys.version_info:
            self.assertIn("^", trace)
        self.run_ok("async def f(): return 1")
        self.assertEqual(self.run_ok("await f()").value, "1")

    def test_a_module_the_code_itself_shadowed_is_not_used(self):
        pathlib.Path(self.workdir, "traceback.py").write_text("def format_exception(*a): return ['forged']")
        pathlib.Path(self.workdir, "asyncio.py").write_text("x = 1")
        self.run_ok("import traceback, asyncio; asyncio.x")
        trace = self.run_error("\n1/0", "ZeroDivisionError").traceback
        self.assertIn('line 2, in <module>\n    1/0\nZeroDivisionError: division', trace)
        self.run_error("async def f(): pass\nawait f()", "RuntimeError")
        self.assertEqual(self.run_ok("1+1").value, "2")


class Sources(KernelTest):
    def test_getsource(self):
        self.run_ok("def f():\n    return 'here'\n\nclass A:\n    def g(self):\n        return 'there'\n")
        self.run_ok("import inspect")
        self.assertIn("return 'here'", self.run_ok("inspect.getsource(f)").value)
        self.assertIn("class A:", self.run_ok("inspect.getsource(A)").value)
        self.run_ok("def f():\n    return 'newer'")
        self.assertIn("return 'newer'", self.run_ok("inspect.getsource(f)").value)
        self.assertIn("return 'now'", self.run_ok("def f():\n    return 'now'\ninspect.getsource(f)").value)

    def test_lines_in_the_codes_own_tracebacks(self):
        answer = self.run_ok("import traceback\ntry:\n    1/0\nexcept Exception:\n    traceback.print_exc()")
        self.assertIn('File "<execution 1>", line 3, in <module>\n    1/0', answer.stderr)
        self.assertNotIn("vivarium", answer.stderr)

    def test_lines_of_earlier_executions(self):
        self.run_ok("\n\ndef f():\n    return 1/0  # here")
        trace = self.run_error("f()", "ZeroDivisionError").traceback
        self.assertIn('File "<execution 1>", line 4, in f\n    return 1/0  # here', trace)
        self.run_ok("import linecache; linecache.clearcache()")
        self.assertIn("# here", self.run_error("f()", "ZeroDivisionError").traceback)

    def test_odd_line_ends_do_not_shift_lines(self):
        trace = self.run_error("a = '\x0c\x1c\u2028'\r\nb = 1\r1/0", "ZeroDivisionError").traceback
        self.assertIn("line 3, in <module>\n    1/0", trace)

    def test_old_sources_are_forgotten(self):
        self.run_ok("import linecache\ndef f(): 1/0")
        for _ in range(210):
            self.run_ok("x = 1")
        self.assertEqual(self.run_ok("len([k for k in linecache.cache if k.startswith('<exec')])").value, "200")
        self.run_error("f()", "ZeroDivisionError")

    def test_thread_tracebacks_have_lines(self):
        answer = self.run_ok(
            "import threading\ndef work():\n    raise ValueError('in thread')\n"
            "t = threading.Thread(target=work, name='worker'); t.start(); t.join()"
        )
        self.assertIn("Exception in thread worker:", answer.stderr)
        self.assertIn("    raise ValueError('in thread')", answer.stderr)

    def test_warnings_point_at_the_line(self):
        answer = self.run_ok("import warnings\n\nwarnings.warn('careful')")
        self.assertIn("<execution 1>:3: UserWarning: careful", answer.stderr)
        answer = self.run_ok("\n\nwarnings.warn('careful')")
        self.assertIn("<execution 2>:3: UserWarning: careful", answer.stderr)

    def test_hooked_modules_keep_their_loader(self):
        code = "import %s as m\nvars(m.__loader__).get('exec_module'), m.__spec__.loader is m.__loader__"
        for module in ("threading", "inspect"):
            self.assertEqual(self.run_ok(code % module).value, "(None, True)")


class Exceptions(KernelTest):
    def test_every_kind_is_an_answer(self):
        for code, kind, message in (
            ("1/0", "ZeroDivisionError", "division by zero"),
            ("raise SystemExit", "SystemExit", ""),
            ("exit()", "SystemExit", "None"),
            ("import sys; sys.exit(3)", "SystemExit", "3"),
            ("raise GeneratorExit('g')", "GeneratorExit", "g"),
            ("import asyncio; raise asyncio.CancelledError('c')", "asyncio.exceptions.CancelledError", "c"),
            ("class Mine(BaseException): pass\nraise Mine('m')", "Mine", "m"),
            ("import decimal; raise decimal.Inexact('d')", "decimal.Inexact", "d"),
            ("raise KeyError('k')", "KeyError", "'k'"),
            ("raise StopIteration(1)", "StopIteration", "1"),
            ("raise ValueError('\\ud800')", "ValueError", "\\ud800"),
            ("def f(): f()\nf()", "RecursionError", None),
            ("x = []\nfor i in range(100000): x = [x]\nrepr(x)", "RecursionError", None),
            ("raise MemoryError", "MemoryError", ""),
            ("assert 1 == 2, 'no'", "AssertionError", "no"),
            ("del undefined", "NameError", None),
            ("import no_such_module", "ModuleNotFoundError", None),
        ):
            with self.subTest(code):
                answer = self.run_error(code, kind)
                if message is not None:
                    self.assertEqual(answer.message, message)
                self.assertIn(kind, answer.traceback)
                self.assertNotIn("vivarium", answer.traceback)
                self.assertNotIn("<string>", answer.traceback)
        self.assert_usable()

    def test_traceback_is_what_python_prints(self):
        code = "def f(x):\n    return 1 / x\n\ntry:\n    f(0)\nexcept ZeroDivisionError as e:\n    raise ValueError('outer') from e\n"
        ours = self.run_error(code, "ValueError").traceback
        path = pathlib.Path(self.workdir, "script.py")
        path.write_text(code)
        theirs = subprocess.run([sys.executable, str(path)], stderr=subprocess.PIPE).stderr.decode()
        self.assertEqual(ours, theirs.replace(str(path), "<execution 1>"))

    def test_syntax_errors_point_at_the_character(self):
        answer = self.run_error("x = 1\ny = = 2", "SyntaxError")
        self.assertIn('File "<execution 1>", line 2\n    y = = 2\n        ^', answer.traceback)
        self.assertNotIn("vivarium", answer.traceback)
        answer = self.run_error("def f():\n    pass\nreturn 5", "SyntaxError")
        self.assertIn("    return 5\n", answer.traceback)
        self.run_error("  x = 1", "IndentationError")
        self.run_error("if 1:\n\tx\n        y", "TabError")
        self.run_error("x = '\\N{nope}'", "SyntaxError")
        self.run_error("await = 3", "SyntaxError")
        self.run_error("yield 1", "SyntaxError")
        nul = self.kernel.run("x = '\0'")
        self.assertIn((nul.completion, nul.exception), [("error", "ValueError"), ("error", "SyntaxError")])
        self.assert_usable()

    def test_nesting_beyond_the_parser_is_an_answer(self):
        for code in ("(" * 500 + ")" * 500, "-" * 3000 + "1", "+".join(["1"] * 20000)):
            answer = self.kernel.run(code)
            self.assertIn(answer.completion, ("ok", "error"), code[:10])
        self.assert_usable()

    def test_an_exception_whose_str_raises_or_hangs(self):
        answer = self.run_error("class E(Exception):\n  def __str__(self): 1/0\nraise E", "E")
        self.assertEqual(answer.message, "<no message: str() raised ZeroDivisionError>")
        self.assertIn("    raise E", self.run_error("\nraise E", "E").traceback)
        code = "class E(Exception):\n  def __str__(self):\n    while True: x = 5\nraise E"
        answer = self.run_error(code, "E", [0.3])
        self.assertIn("KeyboardInterrupt", answer.message)
        self.assertIn("raise E", answer.traceback)
        self.run_error("class E(Exception):\n  def __str__(self): return str(self)\nraise E", "E")
        self.run_error("class E(Exception):\n  def __str__(self): return 5\nraise E", "E")
        self.assert_usable()

    def test_hostile_exception_classes(self):
        code = (
            "class E(Exception):\n"
            "  __traceback__ = property(lambda s: 1/0, lambda s, v: 1/0)\n"
            "  __context__ = property(lambda s: 1/0)\n  __cause__ = property(lambda s: 1/0)\n"
            "  __class__ = property(lambda s: int)\n"
            "  def __getattribute__(self, name): raise KeyboardInterrupt\n"
            "  def __eq__(self, other): raise SystemExit\n  __hash__ = None\n"
            "raise E('odd')"
        )
        answer = self.run_error(code, "E")
        self.assertEqual(answer.message, "odd")
        self.assert_usable()

    def test_chains_and_loops_of_exceptions(self):
        self.run_error("e = ValueError('a'); f = KeyError('b')\ne.__cause__ = f; f.__cause__ = e\nraise e", "ValueError")
        code = "e = None\nfor i in range(5000):\n  n = ValueError(i); n.__context__ = e; e = n\nraise e"
        answer = self.run_error(code, "ValueError")
        self.assertEqual(answer.message, "4999")
        self.assertIn("ValueError: 4999", answer.traceback)

    @unittest.skipIf(sys.version_info < (3, 11), "exception groups are of 3.11")
    def test_exception_groups(self):
        answer = self.run_error("try:\n  input()\nexcept EOFError as e:\n  raise ExceptionGroup('g', [e, ValueError(2)])", "ExceptionGroup")
        self.assertIn("+---------------- 1", answer.traceback)
        self.assertNotIn("vivarium", answer.traceback)

    def test_large_exceptions_are_cut(self):
        answer = self.run_error("raise ValueError('x' * 3_000_000)", "ValueError")
        self.assertLessEqual(len(answer.message), 64 << 10)
        self.assertLessEqual(len(answer.traceback), 256 << 10)
        long_name = self.kernel.run("raise type('N' * 1_000_000, (Exception,), {})")
        self.assertEqual(long_name.completion, "error")
        self.assertLessEqual(len(long_name.exception), 4 << 10)

    def test_out_of_memory(self):
        self.run_ok("import resource\nsoft, hard = resource.getrlimit(resource.RLIMIT_AS)")
        code = (
            "resource.setrlimit(resource.RLIMIT_AS, (200 << 20, hard))\n"
            "x = []\nwhile True: x.append(bytearray(1 << 16))"
        )
        self.assertEqual(self.run_error(code, "MemoryError").exception, "MemoryError")
        self.run_ok("x = None\nresource.setrlimit(resource.RLIMIT_AS, (soft, hard))")
        self.assert_usable()

    def test_tracebacks_free_what_they_held(self):
        self.run_error("class A:\n  def __del__(self): print('gone')\ndef f():\n  a = A()\n  1/0\nf()", "ZeroDivisionError")
        self.run_ok("import gc; gc.collect()")
        self.assertEqual(self.run_ok("sum(isinstance(o, A) for o in gc.get_objects())").value, "0")


class Interrupts(KernelTest):
    def assert_interrupted(self, code, interrupts=(0.3,)):
        answer = self.kernel.run(code, interrupts)
        self.assertEqual((answer.completion, answer.exception), ("interrupted", "KeyboardInterrupt"), answer)
        self.assertNotIn("vivarium", answer.traceback)
        return answer

    def test_loops_and_sleeps(self):
        self.run_ok("import time, threading, select, os")
        for code in ("while True: x = 5", "time.sleep(100)", "threading.Event().wait()",
                     "threading.Lock().acquire() and threading.Semaphore(0).acquire()",
                     "r, w = os.pipe()\nos.read(r, 1)",
                     "[0 for i in iter(int, 1)]", "sum(iter(lambda: 0, 1))",
                     "def f():\n    while True:\n        try:\n            input()\n        except EOFError:\n            pass\nf()"):
            with self.subTest(code):
                trace = self.assert_interrupted(code).traceback
                self.assertIn("<execution ", trace)
        self.assert_usable()

    def test_what_was_printed_before_stays(self):
        answer = self.assert_interrupted("print('before', end='')\nwhile True: x = 5")
        self.assertEqual(answer.stdout, "before")

    def test_state_is_kept_and_handlers_run(self):
        # No bare loop here: in CPython 3.11 and 3.12 an interrupt can leave `while True` in a
        # `try` without running the handler, in any script.
        answer = self.assert_interrupted("y = 5\ntry:\n    import time; time.sleep(100)\nfinally:\n    print('cleaned up')")
        self.assertEqual(answer.stdout, "cleaned up\n")
        self.assertEqual(self.run_ok("y").value, "5")
        self.assertEqual(self.run_ok("try:\n    import time; time.sleep(100)\nexcept KeyboardInterrupt:\n    y = 'caught'\ny", [0.3]).value, "'caught'")

    def test_a_second_interrupt_counts(self):
        self.assert_interrupted("try:\n    import time; time.sleep(100)\nexcept KeyboardInterrupt: pass\nwhile True: x = 5", (0.3, 0.6))

    def test_an_idle_kernel_ignores_it(self):
        for _ in range(50):
            os.killpg(self.kernel.process.pid, signal.SIGINT)
        self.assert_usable()
        self.assertEqual(self.run_ok("import time; time.sleep(0.2); 'slept'").value, "'slept'")

    def test_storms_of_interrupts_hit_the_code_or_nothing(self):
        stop = time.monotonic() + 4
        code = "for i in range(200): pass\nprint(i)\ni"
        outcomes = set()
        while time.monotonic() < stop:
            self.kernel.count += 1
            number, body = self.kernel.count.to_bytes(8, "little"), code.encode()
            self.kernel.send(1, number + len(body).to_bytes(4, "little") + body)
            answer, frame = Answer(), None
            while frame is None or frame[0] != 4:
                os.kill(self.kernel.process.pid, signal.SIGINT)
                frame = self.kernel.frame(answer)
                self.assertIsNotNone(frame, "the kernel died of an interrupt")
                self.assertEqual(frame[1][:8], number)
            outcomes.add(COMPLETIONS[frame[1][8]])
        self.assertLessEqual(outcomes, {"ok", "interrupted"})
        self.assert_usable()

    def test_replaced_handlers_and_masks_do_not_last(self):
        self.run_ok("import signal")
        for code in ("signal.signal(signal.SIGINT, signal.SIG_IGN)",
                     "signal.signal(signal.SIGINT, signal.SIG_DFL)",
                     "signal.signal(signal.SIGINT, lambda *a: 1/0)",
                     "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))"):
            with self.subTest(code):
                self.run_ok(code)
                os.killpg(self.kernel.process.pid, signal.SIGINT)
                self.assert_interrupted("while True: x = 5")
                self.assert_usable()

    def test_an_interrupt_held_back_by_a_mask_is_dropped(self):
        self.run_ok("import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [2])\ntime.sleep(0.6)", [0.2])
        self.assertEqual(self.run_ok("time.sleep(0.3); 'undisturbed'").value, "'undisturbed'")

    def test_other_signal_handlers_that_raise_between_executions(self):
        self.run_ok("import signal\ndef late(*a): raise TimeoutError\nsignal.signal(signal.SIGALRM, late)\nsignal.setitimer(signal.ITIMER_REAL, 0.2)")
        time.sleep(0.5)
        self.assert_usable()

    def test_await_is_interrupted_and_tells_where(self):
        answer = self.assert_interrupted("import asyncio\ntry:\n    await asyncio.sleep(100)\nfinally:\n    print('left')")
        self.assertEqual(answer.stdout, "left\n")
        self.assertIn("    await asyncio.sleep(100)", answer.traceback)
        self.assertEqual(self.run_ok("await asyncio.sleep(0, 'on')").value, "'on'")

    def test_a_long_compilation(self):
        answer = self.kernel.run("x = [" + "1," * 200_000 + "]\nwhile True: x = 5", [0.05, 1.5])
        self.assertEqual(answer.completion, "interrupted")
        self.assert_usable()


class Await(KernelTest):
    def test_top_level_await(self):
        self.run_ok("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x")
        self.assertEqual(self.run_ok("await f(1)").value, "1")
        self.assertEqual(self.run_ok("x = await f(2)\nx").value, "2")
        self.assertEqual(self.run_ok("x = await f(3)\nawait f(x + 1)").value, "4")
        self.assertEqual(self.run_ok("async def g():\n    yield 1\n    yield 2\n[x async for x in g()]").value, "[1, 2]")
        self.assertEqual(self.run_ok("async for x in g(): print(x)").stdout, "1\n2\n")
        self.assertEqual(self.run_ok("(await asyncio.gather(f(1), f(2)))").value, "[1, 2]")

    def test_one_loop_and_its_tasks_go_on(self):
        self.run_ok("import asyncio\nasync def me(): return asyncio.get_running_loop()")
        self.run_ok("a = await me()")
        self.assertEqual(self.run_ok("a is await me()").value, "True")
        self.run_ok("async def later():\n    await asyncio.sleep(0.01)\n    print('task done')\nt = asyncio.ensure_future(later())\nawait asyncio.sleep(0)")
        self.assertEqual(self.run_ok("await t").stdout, "task done\n")
        self.run_ok("a.close()")
        self.assertEqual(self.run_ok("await asyncio.sleep(0, 5)").value, "5")
        self.assertEqual(self.run_ok("asyncio.run(asyncio.sleep(0, 6))").value, "6")
        self.assertEqual(self.run_ok("await asyncio.sleep(0, 7)").value, "7")

    def test_errors(self):
        self.run_ok("import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    1/0")
        answer = self.run_error("await f()", "ZeroDivisionError")
        self.assertTrue(answer.traceback.startswith('Traceback (most recent call last):\n  File "<execution 2>", line 1'), answer)
        self.assertEqual(answer.stderr, "")
        for code, kind in (("raise SystemExit(2)", "SystemExit"), ("raise asyncio.CancelledError", "asyncio.exceptions.CancelledError"),
                           ("raise GeneratorExit", "GeneratorExit"), ("await 5", "TypeError"), ("1 +", "SyntaxError")):
            answer = self.run_error("await asyncio.sleep(0)\n" + code, kind)
            self.assertEqual(answer.stderr, "")
        answer = self.kernel.run("await asyncio.sleep(0)\nraise KeyboardInterrupt")
        self.assertEqual((answer.completion, answer.stderr), ("interrupted", ""))
        self.run_error("def f(): await g()", "SyntaxError")


class Streams(KernelTest):
    def test_stdin_is_refused(self):
        for code in ("input()", "input('prompt? ')", "import sys; sys.stdin.read()", "sys.stdin.readline()",
                     "sys.stdin.buffer.read()", "next(sys.stdin)", "sys.stdin.buffer.read(10)", "sys.stdin.read(1)",
                     "sys.__stdin__.read()", "import getpass, warnings; warnings.simplefilter('ignore'); getpass.getpass()"):
            with self.subTest(code):
                answer = self.run_error(code, "EOFError")
                self.assertIn("no standard input", answer.message)
                self.assertNotIn("vivarium", answer.traceback)
        self.run_error("sys.stdin.close(); 1/0", "ZeroDivisionError")
        self.run_error("exit()", "SystemExit")
        self.run_error("input()", "EOFError")
        self.run_ok("import io\nsys.stdin = io.StringIO('mine')")
        self.assertEqual(self.run_ok("input()").value, "'mine'")

    def test_streams_are_real_files(self):
        self.assertEqual(self.run_ok("import sys; sys.stdout.fileno(), sys.stderr.fileno(), sys.stdin.fileno()").value, "(1, 2, 0)")
        self.assertEqual(self.run_ok("sys.stdout.buffer.write(b'raw\\n') and None").stdout, "raw\n")
        self.assertEqual(self.run_ok("sys.stdout.encoding, sys.stderr.encoding").value, "('utf-8', 'utf-8')")
        self.assertEqual(self.run_ok("sys.stdout is sys.__stdout__").value, "True")

    def test_lone_surrogates_print(self):
        for language in ("C.UTF-8", "C", "POSIX"):
            self.kernel = self.start(LANG=language, LC_ALL=language)
            answer = self.run_ok("import sys\nprint('\\ud800\\udcff\xe9\u20ac')\nprint('\\ud800', file=sys.stderr)")
            self.assertEqual((answer.stdout, answer.stderr), ("\\ud800\\udcff\xe9\u20ac\n", "\\ud800\n"))

    def test_logging_keeps_its_stream(self):
        self.run_ok("import logging\nlogging.basicConfig(level='INFO')")
        for _ in range(3):
            self.assertEqual(self.run_ok("logging.info('said')").stderr, "INFO:root:said\n")

    def test_c_code_and_children_write_too_in_order(self):
        answer = self.run_ok("import os\nprint('one')\nos.system('echo two')\nos.write(1, b'three\\n')\nprint('four')")
        self.assertEqual(answer.stdout, "one\ntwo\nthree\nfour\n")

    def test_unfinished_lines_are_flushed(self):
        self.assertEqual(self.run_ok("print('no end', end='')").stdout, "no end")

    def test_one_print_is_one_write(self):
        code = "import os, threading\nr, w = os.pipe()\nsaved = os.dup(1)\nos.dup2(w, 1)\nprint('x' * 1000)\nos.dup2(saved, 1)\nlen(os.read(r, 5000))"
        self.assertEqual(self.run_ok(code).value, "1001")

    def test_streams_closed_detached_or_gone_come_back(self):
        for code in ("sys.stdout.close()", "sys.stdout.detach()", "sys.stdout = None", "del sys.stdout",
                     "sys.stdout.buffer.close()", "sys.stderr.close()", "sys.stderr.detach()", "del sys.stderr",
                     "del sys.stdout, sys.stderr, sys.stdin", "sys.stdout = open('x', 'w'); sys.stdout.close()"):
            with self.subTest(code):
                self.kernel.run("import sys\n" + code)
                self.assert_usable()

    def test_a_redirect_that_works_stays(self):
        self.run_ok("import sys, io\nsys.stdout = mine = io.StringIO()\nprint('kept')")
        self.assertEqual(self.run_ok("print('more')").stdout, "")
        self.assertEqual(self.run_ok("mine.getvalue()").value, "'kept\\nmore\\n'")
        self.run_ok("class Tee:\n  def write(self, s): sys.__stdout__.write(s.upper())\nsys.stdout = Tee()")
        self.assertEqual(self.run_ok("print('tee')").stdout, "TEE\n")
        self.run_ok("class Hostile:\n  def __getattr__(self, n): raise SystemExit\nsys.stdout = Hostile()")
        self.assertEqual(self.run_ok("1+1").value, "2")

    def test_a_stream_that_hangs_is_interrupted(self):
        code = "import sys\nclass H:\n  def write(self, s): pass\n  def flush(self):\n    while True: x = 5\nsys.stdout = H()"
        self.run_ok(code, [0.3])
        self.run_ok("sys.stdout = None", [0.3])
        self.assert_usable()

    def test_thread_output_comes_between_executions(self):
        self.run_ok("import threading, time\ndef late():\n  time.sleep(0.2)\n  print('late')\nthreading.Thread(target=late).start()")
        answer = Answer()
        ready, _, _ = select.select([self.kernel.out], [], [], PATIENCE_S)
        self.kernel.drain(answer, ready)
        self.assertEqual(answer.stdout, "late\n")
        self.assert_usable()


class Processes(KernelTest):
    def test_a_forked_child_never_answers(self):
        answer = self.run_ok("import os, sys\npid = os.fork()\nprint('child' if pid == 0 else 'parent')\npid and os.waitpid(pid, 0)[1]")
        self.assertEqual(sorted(answer.stdout.split()), ["child", "parent"])
        self.assertEqual(answer.value, "0")
        answer = self.run_ok("pid = os.fork()\nif pid == 0: 1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        self.assertEqual(answer.value, "1")
        self.assertIn("ZeroDivisionError", answer.stderr)
        for code, status in (("sys.exit(7)", 7), ("sys.exit()", 0), ("sys.exit('bye')", 1), ("raise KeyboardInterrupt", 1)):
            answer = self.run_ok("pid = os.fork()\nif pid == 0: %s\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])" % code)
            self.assertEqual(answer.value, str(status), code)
        self.assert_usable()

    def test_a_fork_behind_pythons_back(self):
        code = "import ctypes, os\npid = ctypes.CDLL(None).fork()\nif pid: os.waitpid(pid, 0)\n'done'"
        self.assertEqual(self.run_ok(code).value, "'done'")
        self.assert_usable()

    def test_children_do_not_hold_the_control_socket(self):
        self.assertEqual(self.run_ok("import subprocess, os\nsubprocess.run('ls /proc/self/fd', shell=True, close_fds=False, stdout=-1).stdout.split()[:3]").value, "[b'0', b'1', b'2']")
        self.assertEqual(self.run_ok("r, w = os.pipe()\nos.dup2(w, 50)\npid = os.fork()\nif pid == 0:\n  os.write(w, b'open' if os.path.exists('/proc/self/fd/3') and 'socket' in os.readlink('/proc/self/fd/3') else b'shut'); os._exit(0)\nos.waitpid(pid, 0)\nos.read(r, 10)").value, "b'shut'")

    def test_a_grandchild_keeps_its_own_descriptor_three(self):
        code = (
            "import os\nr, w = os.pipe()\npid = os.fork()\nif pid == 0:\n"
            "  os.dup2(w, 3)\n  if os.fork() == 0: os.write(3, b'grandchild')\n"
            "  else: os.wait()\n  os._exit(0)\nos.waitpid(pid, 0)\nos.close(w)\nos.read(r, 100)"
        )
        self.assertEqual(self.run_ok(code).value, "b'grandchild'")

    def test_multiprocessing(self):
        pathlib.Path(self.workdir, "work.py").write_text("def triple(x): return 3 * x")
        self.run_ok("import multiprocessing as mp, work\nfrom concurrent.futures import ProcessPoolExecutor\ndef double(x): return 2 * x")
        self.assertEqual(self.run_ok("with mp.Pool(2) as p: r = p.map(double, [1, 2])\nr").value, "[2, 4]")
        self.assertEqual(self.run_ok("with ProcessPoolExecutor(2) as p: r = list(p.map(double, [1, 2]))\nr").value, "[2, 4]")
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                code = "with mp.get_context(%r).Pool(1) as p: r = p.map(work.triple, [1, 2])\nr" % method
                answer = self.run_ok(code)
                self.assertEqual((answer.value, answer.stderr), ("[3, 6]", ""))
        answer = self.run_ok("p = mp.Process(target=print, args=('hi',)); p.start(); p.join(); p.exitcode")
        self.assertEqual((answer.value, answer.stdout), ("0", "hi\n"))
        self.assert_usable()

    def test_ways_to_die(self):
        for code, status in (("import os; os._exit(3)", 3), ("import os; os.abort()", -signal.SIGABRT),
                             ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
                             ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
                             ("import os; os.closerange(0, 1024)", 71), ("import os; os.close(3)", 71),
                             ("import os; os.dup2(os.open('/dev/null', os.O_RDWR), 3)", 0)):
            with self.subTest(code):
                self.kernel = self.start()
                self.assertEqual(self.kernel.run(code).exited, status)

    def test_a_closed_control_socket_ends_the_kernel(self):
        self.run_ok("import threading\nthreading.Thread(target=threading.Event().wait).start()")
        self.kernel.control.close()
        self.assertEqual(self.kernel.process.wait(PATIENCE_S), 0)

    def test_closed_output_still_answers(self):
        self.run_ok("import os\nos.close(1); os.close(2)")
        self.assertEqual(self.run_ok("1+1").value, "2")
        self.run_error("1/0", "ZeroDivisionError")
        self.run_error("print(1)", "OSError")
        self.assertEqual(self.run_ok("1+1").value, "2")

    def test_a_control_socket_made_nonblocking(self):
        self.run_ok("import os; os.set_blocking(3, False)")
        time.sleep(0.1)
        self.assertEqual(len(self.run_ok("import os; os.set_blocking(3, False)\n'x' * 3000000").value), 1 << 20)
        self.assert_usable()


class Tampering(KernelTest):
    def test_the_session_is_usable_after(self):
        everything = "for n in dir(builtins):\n    if not n.startswith('_'): setattr(builtins, n, None)"
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
            "del __builtins__", "__builtins__ = 5", "__builtins__ = {}",
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
                self.assertEqual(self.run_ok("x = 1\nx").value, "1")
                answer = self.kernel.run("not_defined")
                self.assertEqual((answer.completion, answer.exception), ("error", "NameError"), answer)
                self.assertIn("not_defined", answer.traceback)

    @unittest.skipIf(sys.version_info < (3, 12), "sys.monitoring is of 3.12")
    def test_monitoring_ends_with_its_execution(self):
        self.kernel.run("import sys\nm = sys.monitoring\nm.use_tool_id(1, 'x')\nm.register_callback(1, m.events.PY_START, lambda *a: 1/0)\nm.set_events(1, m.events.PY_START)")
        self.assert_usable()

    def test_tracing_does_not_see_the_runner(self):
        self.run_ok("import sys\nseen = []\nsys.settrace(lambda frame, *a: seen.append(frame.f_code.co_filename))\n(lambda: 1)()")
        self.assertEqual(self.run_ok("[name for name in seen if 'report' in name or 'wire' in name]").value, "[]")

    def test_tiny_recursion_limits(self):
        self.run_ok("import sys")
        for limit in (8, 12, 20, 50, 150):
            self.kernel.run("sys.setrecursionlimit(%d)" % limit)
            self.assert_usable()

    def test_audit_hooks_that_raise(self):
        self.run_ok("import sys\nbad = False\ndef hook(event, args):\n    if bad and event == 'compile': raise PermissionError('audited')\nsys.addaudithook(hook)")
        self.run_ok("bad = True")
        for _ in range(3):
            self.run_error("1", "PermissionError")

    def test_raising_into_the_runner_from_a_thread(self):
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
        self.kernel.run("t.join()")
        self.kernel.run("t.join()")
        self.assert_usable()


if __name__ == "__main__":
    unittest.main()
