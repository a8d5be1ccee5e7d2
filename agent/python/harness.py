"""A kernel as a process, over its own wire and without a sandbox, for the tests.

Run the tests with any supported interpreter, which is then also the one under test:
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
# As `arguments` in agent/src/inspect.rs.
ARGUMENTS = ["-s", "-P", "-c"] if sys.version_info >= (3, 11) else ["-s", "-c"]
COMPLETIONS = {0: "ok", 1: "error", 2: "interrupted"}
# Generous: this is what a hang costs, not what a test takes.
PATIENCE_S = 30


def inspect():
    sources = {name: (HERE / (name + ".py")).read_text() for name in PARTS}
    script = (HERE / "inspect_interpreter.py").read_text()
    done = subprocess.run(
        [sys.executable, "-s", "-c", script],
        input=json.dumps(sources).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout.decode().rpartition("vivarium-inspect:")[2])


PROGRAM = base64.b64decode(inspect()["program"])


class Answer:
    """All that came of one execution."""

    completion = value = type = exception = message = traceback = None
    mime = ()
    stdout = stderr = ""
    exited = None
    began = False

    def __repr__(self):
        return repr(vars(self))


class Kernel:
    """A running kernel."""

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
            [sys.executable, *ARGUMENTS, BOOTSTRAP],
            cwd=workdir,
            env=env,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=out[1],
            stderr=err[1],
            preexec_fn=descriptors,
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

        Sends up to `interrupts` SIGINTs, one each time that the code has printed "go".
        """
        sent, began = 0, time.monotonic()
        while True:
            if len(self.inbox) >= 4:
                end = 4 + int.from_bytes(self.inbox[:4], "little")
                if len(self.inbox) >= end:
                    frame, self.inbox = self.inbox[4:end], self.inbox[end:]
                    return frame[0], frame[1:]
            if sent < min(interrupts, answer.stdout.count("go\n")):
                sent += 1
                time.sleep(0.05)  # Not needed; it lets the code get where it is going.
                os.killpg(self.process.pid, signal.SIGINT)
            if time.monotonic() - began > PATIENCE_S:
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

    def run(self, code, interrupts=0):
        """Runs code; see `frame` for `interrupts`."""
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
            if kind == 5:
                # It has begun, and is what interrupts are for.
                assert not answer.began, answer
                answer.began = True
                continue
            interrupts, texts = 0, Texts(payload[8:])
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

    def run_ok(self, code, interrupts=0):
        answer = self.kernel.run(code, interrupts)
        self.assertEqual(answer.completion, "ok", answer)
        return answer

    def run_error(self, code, exception, interrupts=0):
        answer = self.kernel.run(code, interrupts)
        self.assertEqual((answer.completion, answer.exception), ("error", exception), answer)
        return answer

    def assert_usable(self):
        self.assertEqual(self.run_ok("1+1").value, "2")
        answer = self.run_ok("print('out')\nimport sys; print('err', file=sys.stderr)\n[3][0]")
        self.assertEqual((answer.stdout, answer.stderr, answer.value), ("out\n", "err\n", "3"))
        self.assertIn("    1/0", self.run_error("1/0", "ZeroDivisionError").traceback)
