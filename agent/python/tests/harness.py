"""Runs a kernel for the tests: as a process, over its control socket, without a sandbox.

Run the tests with any supported interpreter, which is then also the one under test:
`python3 -m unittest` in this directory. With VIVARIUM_TEST_KERNEL=wasm:DIR the kernel under test is that of the
runtime `wasm`, which `runtimes/wasm/build DIR` makes; not_in_wasm.py lists the tests that it does not pass.
"""

import base64
import collections
import fcntl
import functools
import itertools
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Any

import not_in_wasm

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("core", "calls", "display", "cell", "assist", "image", "policy", "kernel", "zygote")
FILES = {path.stem: path for folder in FOLDERS for path in (ROOT / folder).glob("*.py")}
# All parts of the kernel program: the other files are run as scripts.
SCRIPTS = {"bootstrap", "inspect_interpreter"}
PARTS = sorted(FILES.keys() - SCRIPTS)
# The parts that are loaded before the first execution.
EARLY = ["classes", "compiler", "guard", "import_hooks", "interactive", "kernel"]
EARLY += ["packages", "report", "source_cache", "streams", "wire"]
DISPLAY_KINDS = ("display", "update", "clear", "image", "video_frame")
BOOTSTRAP = FILES["bootstrap"].read_text()
COMPLETIONS = {0: "ok", 1: "error", 2: "interrupted", 3: "work_limit"}
# Items, characters and depth of a repr, as IPython has them.
IPYTHON_LIMITS = (1000, 0xFFFFFFFF, 0xFFFFFFFF)
# `CodePolicy::default()` in agent/protocol.
NO_POLICY: dict = {
    "max_work": None,
    "imports": None,
    "audit_events": None,
    "echo": "last",
    "prints": False,
    "modules": [],
    "names": None,
}
# A test that hangs fails after this.
TIMEOUT_S = 30

# The directory of the runtime `wasm`, if that is under test.
WASM = os.environ.get("VIVARIUM_TEST_KERNEL", "").partition("wasm:")[2]

# Tests of libraries look for these in the interpreter under test, then in the system's.
INTERPRETERS = (sys.executable, "/usr/bin/python3")
# The libraries that VIVARIUM_TEST_REQUIRE calls python-science.
SCIENCE = {"PIL", "matplotlib", "numpy", "pandas"}


@functools.cache
def inspect(interpreter):
    sources = {name: FILES[name].read_text() for name in PARTS}
    script = FILES["inspect_interpreter"].read_text()
    done = subprocess.run(
        [interpreter, "-s", "-c", script],
        input=json.dumps(sources).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.decode().rpartition("vivarium-inspect:")[2])


@functools.cache
def interpreter_with(modules):
    """An interpreter that has these modules, or None."""
    for interpreter in INTERPRETERS if modules else INTERPRETERS[:1]:
        script = "import sys\nfor name in sys.argv[1:]: __import__(name)"
        if not subprocess.run(
            [interpreter, "-s", "-c", script, *modules], stderr=subprocess.DEVNULL
        ).returncode:
            return interpreter
    return None


def needs(*modules):
    """Skips a class of tests where no interpreter has these libraries."""

    def decorate(tests):
        tests.needed = modules
        return tests

    return decorate


class Answer:
    """The outcome of one execution."""

    completion = value = type = exception = message = traceback = None  # type: Any
    mime: Any = ()
    # Each display: kind, id, representations, and the output before it.
    displays: Any = ()
    stdout = stderr = ""
    # What the policy noted.
    account: Any = None
    exited: Any = None
    began = False
    interrupts = 0

    def __repr__(self):
        # Only the last displays.
        return repr({**vars(self), "displays": list(self.displays)[-5:]})


def details_of(filename="", cwd="", env=(), repr_limits=IPYTHON_LIMITS, pipes=(), policy=None):
    """What an EXECUTE frame has between the number and the code."""

    def string(text):
        return len(text.encode()).to_bytes(4, "little") + text.encode()

    variables = dict(env)
    details = b"".join(limit.to_bytes(4, "little") for limit in repr_limits)
    details += len(pipes).to_bytes(4, "little")
    details += string(filename) + string(cwd) + len(variables).to_bytes(4, "little")
    details += b"".join(map(string, (text for pair in variables.items() for text in pair)))
    return details + string(policy_text(policy))


def part_of_kernel(name):
    """Code: the part of the kernel program of this name. In runtime wasm they are frozen."""
    return (
        "next(it for it in __import__('gc').unfreeze() or __import__('gc').get_objects()"
        " if type(it) is type(__import__('sys')) and it.__name__ == %r)" % name
    )


def policy_text(policy):
    """A policy as the agent writes it; `policy` has what is not as by default."""
    if not policy:
        return ""
    return json.dumps({**NO_POLICY, **policy})


def python_program(interpreter):
    """A descriptor with the kernel program, and the command that runs it."""
    inspected = inspect(interpreter)
    program = os.memfd_create("program")
    os.write(program, base64.b64decode(inspected["program"]))
    # As `arguments` in agent/src/inspect.rs.
    version = tuple(map(int, inspected["version"].split(".")[:2]))
    arguments = ["-s", "-P", "-c"] if version >= (3, 11) else ["-s", "-c"]
    return program, [interpreter, *arguments, BOOTSTRAP]


@functools.cache
def component():
    """The component as the supervisor passes it: a sealed copy in memory."""
    copy = os.memfd_create("component", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    with open(WASM + "/python.cwasm", "rb") as file, open(copy, "wb", closefd=False) as sealed:
        shutil.copyfileobj(file, sealed, 1 << 20)
    # F_ADD_SEALS of fcntl.h: F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW and F_SEAL_WRITE.
    fcntl.fcntl(copy, 1033, 1 | 2 | 4 | 8)
    return copy


def wasm_program(workdir, max_memory_bytes):
    """The same of the runtime `wasm`: see runtimes/wasm/README.md."""
    program = os.dup(component())
    limits = ["--max-memory-bytes", str(max_memory_bytes)] if max_memory_bytes else []
    return program, [WASM + "/vivarium-wasm", "kernel", *limits, workdir]


class Kernel:
    """A running kernel."""

    def __init__(self, workdir, interpreter=sys.executable, max_memory_bytes=None, **environment):
        self.control, theirs = socket.socketpair()
        out, err = os.pipe(), os.pipe()
        if WASM:
            program, command = wasm_program(workdir, max_memory_bytes)
        else:
            program, command = python_program(interpreter)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": workdir,
            "TMPDIR": workdir + "/.tmp",
            "LANG": "C.UTF-8",
            **environment,
        }

        def descriptors():
            # Through high numbers, since other pipes may have 3 and 4.
            high = [os.dup2(fd, 200 + at) for at, fd in enumerate((theirs.fileno(), program))]
            for at, fd in enumerate(high):
                os.dup2(fd, 3 + at)
            os.closerange(5, 256)

        self.process = subprocess.Popen(
            command,
            cwd=workdir,
            env=env,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=out[1],
            stderr=err[1],
            preexec_fn=descriptors,  # noqa: PLW1509 - the tests have one thread
            start_new_session=True,
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

    def frame(self, answer, interrupts=0):
        """The next frame, collecting output meanwhile; None if the kernel is gone.

        Sends up to `interrupts` SIGINTs in all, one each time that the code has printed "go".
        """
        began = time.monotonic()
        while True:
            if answer.interrupts < min(interrupts, answer.stdout.count("go\n")):
                answer.interrupts += 1
                time.sleep(0.05)  # Not needed; lets the code reach the call after "go".
                os.killpg(self.process.pid, signal.SIGINT)
            if len(self.inbox) >= 4:
                end = 4 + int.from_bytes(self.inbox[:4], "little")
                if len(self.inbox) >= end:
                    frame, self.inbox = self.inbox[4:end], self.inbox[end:]
                    return frame[0], frame[1:]
            if time.monotonic() - began > TIMEOUT_S:
                raise AssertionError("the kernel does not answer: %r" % answer)
            sources: list = [self.control, self.out, self.err]
            ready, _, _ = select.select(sources, [], [], 0.02)
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

    def run(
        self,
        code,
        interrupts=0,
        filename="",
        cwd="",
        env=(),
        repr_limits=IPYTHON_LIMITS,
        pipes=(),
        policy=None,
    ):
        """Runs code; see `frame` for `interrupts`. `pipes` are the ends that it gets for calls."""
        details = details_of(filename, cwd, env, repr_limits, pipes, policy)
        return self.ask(1, details, code, interrupts, pipes)

    def begin(self, code):
        """Asks for an execution, and does not wait for anything. Returns its number."""
        return self.request(1, details_of(), code.encode())

    def request(self, kind, details, code):
        self.count += 1
        number = self.count.to_bytes(8, "little")
        self.send(kind, number + details + len(code).to_bytes(4, "little") + code)
        return number

    def give(self, pipes):
        """Passes on what comes with an execution, if anything does."""
        if pipes:
            socket.send_fds(self.control, [b"\0"], list(pipes))
            for end in pipes:
                os.close(end)

    def ask(self, request, details, code, interrupts=0, pipes=()):
        answer, number = Answer(), self.request(request, details, code.encode())
        answer.displays = []
        while True:
            frame = self.frame(answer, interrupts)
            if frame is None:
                answer.exited = self.process.wait(TIMEOUT_S)
                break
            kind, payload = frame
            assert payload[:8] == number, (payload, answer)
            if kind == 5:
                assert not answer.began, answer
                answer.began = True
                self.give(pipes)
                continue
            texts = Texts(payload[8:])
            if kind != 6:
                interrupts = 0
            if kind == 2:
                answer.value, answer.type = texts.next(), texts.next()
                answer.mime = texts.forms()
            elif kind == 3:
                answer.exception, answer.message = texts.next(), texts.next()
                answer.traceback = texts.next()
            elif kind == 4:
                answer.completion = COMPLETIONS[payload[8]]
                texts.rest = texts.rest[1:]
            elif kind == 7:
                answer.account = json.loads(texts.next())
            elif kind == 6:
                # The pipes hold all output before the display.
                self.drain(answer, select.select([self.out, self.err], [], [], 0)[0])
                kind_of_display, texts.rest = DISPLAY_KINDS[texts.rest[0]], texts.rest[1:]
                shown = Display(kind_of_display, texts.next(), texts.forms(), answer.stdout)
                answer.displays.append(shown)
                self.send(5, number)
            assert not texts.rest, (kind, texts.rest)
            if kind == 4:
                break
        while True:
            ready, _, _ = select.select([self.out, self.err], [], [], 0)
            before = len(answer.stdout) + len(answer.stderr)
            self.drain(answer, ready)
            if not ready or len(answer.stdout) + len(answer.stderr) == before:
                return answer


class Display(collections.namedtuple("Display", "kind id mime stdout")):
    def __repr__(self):
        sizes = {name: len(data) for name, data in self.mime.items()}
        return "<%s %r of %r>" % (self.kind, self.id, sizes)


class Texts:
    """The strings of a payload, one after the other."""

    def __init__(self, rest):
        self.rest = rest

    def number(self):
        value, self.rest = int.from_bytes(self.rest[:4], "little"), self.rest[4:]
        return value

    def next(self, decoded=True):
        size = self.number()
        text, self.rest = self.rest[:size], self.rest[size:]
        assert len(text) == size
        return text.decode() if decoded else text

    def forms(self):
        """Representations: MIME type -> bytes."""
        return {self.next(): self.next(decoded=False) for _ in range(self.number())}


class KernelTest(unittest.TestCase):
    maxDiff = None
    needed: tuple = ()

    def setUp(self):
        self.interpreter = sys.executable if WASM else interpreter_with(self.needed)
        if self.interpreter is None:
            missing = "no interpreter here has %s" % ", ".join(self.needed)
            required = os.environ.get("VIVARIUM_TEST_REQUIRE", "").split(",")
            if "python-science" in required and SCIENCE.issuperset(self.needed):
                self.fail(missing)
            self.skipTest(missing)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.workdir = scratch.name
        self.kernel = self.start()

    def start(self, **options):
        reason = not_in_wasm.reason(self.id(), self.needed) if WASM else None
        if reason is not None:
            self.skipTest(reason)
        kernel = Kernel(self.workdir, self.interpreter, **options)
        self.addCleanup(kernel.close)
        return kernel

    def run_ok(self, code, interrupts=0):
        answer = self.kernel.run(code, interrupts)
        self.assertEqual(answer.completion, "ok", answer)
        return answer

    def assert_interrupts_are_survived(self, begin, check):
        """Begins executions for a while, with interrupts at each of their frames or one at any moment.

        Each is interrupted or ends as if nothing had been, and the next one, by `check`, is never hit.
        """
        began = time.monotonic()
        outcomes: set[str] = set()
        for moment in itertools.count():
            # Longer where there was only one of the two ends.
            if time.monotonic() - began > (4 if len(outcomes) == 2 else TIMEOUT_S):
                break
            number, frame = begin(), None
            while frame is None or frame[0] != 4:
                if moment % 2:
                    os.kill(self.kernel.process.pid, signal.SIGINT)
                elif frame is not None and frame[0] == 5:
                    until = time.perf_counter() + moment % 100 / 20_000
                    while time.perf_counter() < until:
                        pass
                    os.kill(self.kernel.process.pid, signal.SIGINT)
                frame = self.kernel.frame(Answer())
                self.assertIsNotNone(frame, "the kernel died of an interrupt")
                self.assertEqual(frame[1][:8], number)
                if frame[0] == 6:
                    self.kernel.send(5, number)
            outcomes.add(COMPLETIONS[frame[1][8]])
            check()
        self.assertEqual(outcomes, {"ok", "interrupted"})
        self.assert_usable()

    def run_error(self, code, exception, interrupts=0):
        answer = self.kernel.run(code, interrupts)
        self.assertEqual((answer.completion, answer.exception), ("error", exception), answer)
        return answer

    def assert_value(self, code, value):
        self.assertEqual(self.run_ok(code).value, value)

    def shown(self, code):
        """What an execution displays: (kind, id, forms) each."""
        return [tuple(display[:3]) for display in self.run_ok(code).displays]

    def set_budget(self, seconds):
        """Gives rendering less time, so that tests of it are not long."""
        self.run_ok(
            "display()\nbudget = %s\nassert budget.SECONDS == 5\n"
            "budget.SECONDS = %r\nbudget.AGAIN_SECONDS = 1\ndel budget"
            % (part_of_kernel("budget"), seconds)
        )

    def complete(self, code, cursor=None):
        return self.assist(3, code, cursor)

    def inspect(self, code, cursor=None):
        return self.assist(4, code, cursor)

    def is_complete(self, code):
        answer = self.assist(6, code, None)
        return answer["status"], answer["indent"]

    def assist(self, request, code, cursor):
        cursor = len(code) if cursor is None else cursor
        answer = self.kernel.ask(request, cursor.to_bytes(4, "little"), code)
        self.assertEqual((answer.completion, answer.value, answer.type), ("ok", "", ""), answer)
        return json.loads(answer.mime["application/json"])

    def assert_usable(self):
        self.assert_value("1+1", "2")
        answer = self.run_ok("print('out')\nimport sys; print('err', file=sys.stderr)\n[3][0]")
        self.assertEqual((answer.stdout, answer.stderr, answer.value), ("out\n", "err\n", "3"))
        self.assertIn("    1/0", self.run_error("1/0", "ZeroDivisionError").traceback)
