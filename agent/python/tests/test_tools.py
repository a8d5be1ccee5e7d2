"""Calls of functions of the client's, with this process as the supervisor."""

import json
import os
import pathlib
import signal
import threading
from typing import Any

from harness import TIMEOUT_S, KernelTest

RESULT, ERROR, REFUSED, TIMEOUT = 0, 1, 2, 3
SCHEMA = {"properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "required": ["b"]}
TOOLS = [
    {"name": "add", "description": "Adds.", "parameters": SCHEMA},
    {"name": "echo", "description": "", "parameters": None},
]
IMPORT = "from vivarium import *\nimport vivarium\nfrom vivarium import tools\n"


class Supervisor(threading.Thread):
    """Answers what a kernel calls: `handle` returns a kind and a value, or None not to answer."""

    def __init__(self, handle, plain_names=False, tools=TOOLS, max_bytes=1 << 20):
        super().__init__(daemon=True)
        self.handle, self.calls, self.withdrawn = handle, [], []
        self.read_end, calls_end = os.pipe()
        answers_end, self.write_end = os.pipe()
        self.pipes = calls_end, answers_end
        declaration = {"tools": tools, "plain_names": plain_names, "max_bytes": max_bytes}
        self.send(bytes([1]) + json.dumps(declaration).encode())
        self.open = {}
        self.lock = threading.Lock()
        self.start()

    def send(self, body):
        os.write(self.write_end, len(body).to_bytes(4, "little") + body)

    def answer(self, number, kind, value):
        body = bytes([2]) + number.to_bytes(4, "little") + bytes([kind])
        with self.lock:
            self.send(body + json.dumps(value).encode())

    def run(self):
        inbox = b""
        while data := os.read(self.read_end, 1 << 16):
            inbox += data
            while len(inbox) >= 4 and len(inbox) >= 4 + int.from_bytes(inbox[:4], "little"):
                end = 4 + int.from_bytes(inbox[:4], "little")
                frame, inbox = inbox[4:end], inbox[end:]
                number = int.from_bytes(frame[1:5], "little")
                if frame[0] == 2:
                    self.withdrawn.append(number)
                    continue
                name, arguments = frame[6 : 6 + frame[5]].decode(), frame[6 + frame[5] :]
                self.calls.append((name, json.loads(arguments)))
                answered = self.handle(number, *self.calls[-1])
                if answered is not None:
                    self.answer(number, *answered)

    def finished(self):
        """Waits until the kernel has closed its end."""
        self.join(TIMEOUT_S)
        assert not self.is_alive(), "the kernel keeps its end open"
        os.close(self.read_end)
        os.close(self.write_end)


def echo(_number, _name, arguments):
    return RESULT, arguments


class ToolsTest(KernelTest):
    def with_tools(self, code, handle=echo, interrupts=0, **options):
        supervisor = Supervisor(handle, **options)
        answer = self.kernel.run(code, interrupts, pipes=supervisor.pipes)
        supervisor.finished()
        return answer, supervisor

    def assert_with_tools(self, code, value, handle=echo, **options):
        answer, supervisor = self.with_tools(IMPORT + code, handle, **options)
        self.assertEqual((answer.completion, answer.value), ("ok", value), answer)
        return supervisor

    def assert_fails(self, code, exception, message, handle=echo, **options):
        answer, supervisor = self.with_tools(IMPORT + code, handle, **options)
        self.assertEqual((answer.completion, answer.exception), ("error", exception), answer)
        self.assertIn(message, answer.message)
        return supervisor

    def test_arguments_and_results_are_json(self):
        supervisor = self.assert_with_tools(
            "tools.add(1, 'x'), tools.add(a=[None, 1.5], b={'é': True})",
            "({'b': 1, 'a': 'x'}, {'a': [None, 1.5], 'b': {'é': True}})",
        )
        expected = [("add", {"b": 1, "a": "x"}), ("add", {"a": [None, 1.5], "b": {"é": True}})]
        self.assertEqual(supervisor.calls, expected)
        self.assert_usable()

    def test_a_thousand_calls_in_a_row(self):
        self.assert_with_tools("sum(tools.echo(n=n)['n'] for n in range(1000))", "499500")

    def test_what_is_larger_than_a_pipe(self):
        self.assert_with_tools("len(tools.echo(a='x' * 900_000)['a'])", "900000")

    def test_errors_are_exceptions(self):
        def fail(_number, _name, arguments):
            return arguments["kind"], {"message": "no such row", "data": [1]}

        self.assert_fails("tools.echo(kind=1)", "vivarium.ToolError", "no such row", fail)
        self.assert_fails("tools.echo(kind=2)", "vivarium.ToolRefused", "echo: no such row", fail)
        self.assert_fails("tools.echo(kind=3)", "vivarium.ToolTimeout", "no such row", fail)
        self.assert_fails("tools.echo(kind=4)", "vivarium.ToolUnavailable", "no such row", fail)
        code = (
            "try: tools.echo(kind=1)\nexcept vivarium.ToolCallError as e: error = e\n"
            "import pickle\nagain = pickle.loads(pickle.dumps(error))\n"
            "error.message, error.data, again.data"
        )
        self.assert_with_tools(code, "('no such row', [1], [1])", fail)

    def test_what_is_no_json_is_not_sent(self):
        for code, exception, message in [
            ("tools.echo(a=object())", "TypeError", "not JSON serializable"),
            ("tools.echo(a=float('nan'))", "ValueError", "JSON compliant"),
            ("tools.echo(a='\\ud800')", "UnicodeEncodeError", "surrogates"),
            ("tools.echo(1)", "TypeError", "takes its arguments by name"),
            ("tools.add(1, 2, 3)", "TypeError", "takes 2 positional"),
            ("tools.add(1, b=2)", "TypeError", "two values for 'b'"),
            ("tools.echo(a='x' * 2_000_000)", "vivarium.ToolRefused", "are the most"),
            ("tools.none()", "vivarium.UnknownTool", "there is add, echo"),
            ("getattr(tools, '__wrapped__')", "AttributeError", "__wrapped__"),
        ]:
            self.assertEqual(self.assert_fails(code, exception, message).calls, [], code)

    def test_types_of_parameters_are_told_in_words(self):
        anything = {"anyOf": [{"type": "string"}, {"type": "null"}]}
        of = {"type": "array", "items": {"enum": ["a", 1]}}
        properties = {"x": anything, "y": of, "z": {}, "either": {"type": ["string", "null"]}}
        tool = {"name": "t", "description": "", "parameters": {"properties": properties}}
        document = (
            "Parameters:\n    x (string or null, optional)\n"
            '    y (array of "a" or 1, optional)\n    z (any, optional)\n'
            "    either (string or null, optional)"
        )
        self.assert_with_tools("tools.t.__doc__", repr(document), tools=[tool])

    def test_what_can_be_called_describes_itself(self):
        document = "Adds.\n\nParameters:\n    b (integer)\n    a (string, optional)"
        self.assert_with_tools("tools.add.__doc__", repr(document))
        self.assert_with_tools(
            "dir(tools), dir(tools.aio)", "(['add', 'aio', 'echo'], ['add', 'echo'])"
        )
        self.assert_with_tools(
            "tools, tools.add, hasattr(tools, 'x')", "(<vivarium.tools>, <tool add>, False)"
        )

    def test_plain_names_on_request(self):
        answer, _ = self.with_tools("add(1)", plain_names=True)
        self.assertEqual(answer.value, "{'b': 1}", answer)
        # A later execution without them.
        answer = self.run_error("add(1)", "vivarium.ToolUnavailable")
        self.assertIn("this execution has no tools", answer.message)

    def test_without_tools_using_them_is_an_exception(self):
        self.run_ok(IMPORT + "held = tools")
        self.assertIn(
            "no tools", self.run_error("tools.add(1)", "vivarium.ToolUnavailable").message
        )
        self.assert_value("dir(tools), hasattr(vivarium, 'on_resume')", "(['aio'], True)")
        self.assert_with_tools("held.add(1)", "{'b': 1}")
        self.run_error("held.add(1)", "vivarium.ToolUnavailable")

    def test_threads_call_at_once(self):
        barrier = threading.Barrier(8)
        supervisor: Any = None

        def together(number, _name, arguments):
            def answer():
                barrier.wait(TIMEOUT_S)
                supervisor.answer(number, RESULT, arguments)

            threading.Thread(target=answer).start()

        code = (
            IMPORT + "import concurrent.futures as f\nwith f.ThreadPoolExecutor(8) as pool:\n"
            "    r = list(pool.map(lambda n: tools.echo(n=n)['n'], range(64)))\nr == list(range(64))"
        )
        supervisor = Supervisor(together)
        answer = self.kernel.run(code, pipes=supervisor.pipes)
        supervisor.finished()
        self.assertEqual(answer.value, "True", answer)

    def test_coroutines_call_at_once(self):
        held: list = []
        supervisor: Any = None

        def together(number, _name, arguments):
            held.append((number, arguments))
            if len(held) == 20:
                for call in reversed(held):
                    supervisor.answer(call[0], RESULT, call[1])
                held.clear()

        code = (
            IMPORT + "import asyncio\n"
            "r = []\nfor _ in range(3):\n"
            "    r += await asyncio.gather(*(tools.aio.echo(n=n) for n in range(20)))\n"
            "[it['n'] for it in r] == 3 * list(range(20))"
        )
        supervisor = Supervisor(together)
        answer = self.kernel.run(code, pipes=supervisor.pipes)
        supervisor.finished()
        self.assertEqual(answer.value, "True", answer)
        self.assert_usable()

    def test_threads_and_coroutines_share_the_pipe(self):
        code = (
            "import asyncio, threading\nfound = []\n"
            "def work():\n    found.extend(tools.echo(n=n)['n'] for n in range(200))\n"
            "threads = [threading.Thread(target=work) for _ in range(3)]\n"
            "for t in threads: t.start()\n"
            "for n in range(200): found.append((await tools.aio.echo(n=n))['n'])\n"
            "for t in threads: t.join()\n"
            "len(found), sum(found)"
        )
        self.assert_with_tools(code, "(800, 79600)")

    def interrupted_at(self, answered):
        """Interrupts the kernel as soon as a call has come, but at those with `answered`."""

        def handle(_number, _name, arguments):
            if arguments.get("n") in answered:
                return RESULT, arguments
            os.killpg(self.kernel.process.pid, signal.SIGINT)
            return None

        return handle

    def test_an_interrupt_gives_up_the_call(self):
        for call in ("tools.echo()", "await tools.aio.echo()"):
            answer, supervisor = self.with_tools(IMPORT + call, self.interrupted_at(()))
            self.assertEqual(answer.completion, "interrupted", answer)
            self.assertEqual(supervisor.withdrawn, [1], call)
        # Caught, the next call works.
        code = "try: tools.echo(n=1)\nexcept KeyboardInterrupt: pass\ntools.echo(n=2)"
        supervisor = self.assert_with_tools(code, "{'n': 2}", self.interrupted_at((2,)))
        self.assertEqual(supervisor.withdrawn, [1])

    def test_an_interrupt_at_any_moment_mixes_up_no_answers(self):
        # An event loop that was interrupted may still hold the callback that ends the run before.
        code = (
            "import asyncio\nloop = asyncio.new_event_loop()\n"
            "async def one(n): return await tools.aio.echo(n=n)\n"
            "good = interrupted = 0\nwhile good < 200:\n"
            "    try:\n        while good < 200:\n"
            "            found = tools.echo(n=good) if good % 2 else loop.run_until_complete(one(good))\n"
            "            assert found == {'n': good}, (found, good)\n"
            "            good += 1\n"
            "    except KeyboardInterrupt:\n        interrupted += 1\n"
            "        loop = asyncio.new_event_loop()\n"
            "try: tools.echo(n=good)\nexcept KeyboardInterrupt: pass\n"
            "good, interrupted > 0"
        )
        sent = threading.Event()
        sent.set()
        count = 0

        def interrupt():
            os.killpg(self.kernel.process.pid, signal.SIGINT)
            sent.set()

        def handle(_number, _name, arguments):
            nonlocal count
            count += 1
            # One at a time, none while the code handles the one before, and none at the end.
            sent.wait(TIMEOUT_S)
            if count % 2 and arguments["n"] < 199:
                sent.clear()
                threading.Timer(0.0001 * (count % 40), interrupt).start()
                if count % 3 == 0:
                    sent.wait(TIMEOUT_S)
            return RESULT, arguments

        self.assert_with_tools(code, "(200, True)", handle)
        self.assert_usable()

    def test_a_cancelled_call_is_withdrawn(self):
        code = (
            "import asyncio\ntry: await asyncio.wait_for(tools.aio.echo(n=1), 0.01)\n"
            "except asyncio.TimeoutError: pass\nawait tools.aio.echo(n=2)"
        )

        def second(_number, _name, arguments):
            return (RESULT, arguments) if arguments["n"] == 2 else None

        supervisor = self.assert_with_tools(code, "{'n': 2}", second)
        self.assertEqual(supervisor.withdrawn, [1])

    def test_signal_handlers_that_raise_lose_no_answer(self):
        code = (
            "import signal\nclass Raised(TimeoutError): pass\n"
            "def handler(_number, frame):\n"
            "    while frame is not None and frame.f_code is not work.__code__: frame = frame.f_back\n"
            "    if frame is not None: raise Raised\n"
            "signal.signal(signal.SIGALRM, handler)\n"
            "raised = good = bad = attempts = 0\n"
            "def work():\n"
            "    global good, bad\n"
            "    while good < 300 or raised < 10:\n"
            "        if tools.echo(n=good) == {'n': good}: good += 1\n"
            "        else: bad += 1\n"
            "while good < 300 or raised < 10:\n"
            "    attempts += 1\n"
            # Again, since the first may come before there is work. Later and later, so that a slow
            # machine gets through a call.
            "    slower = 1 + attempts // 1000\n"
            "    signal.setitimer(signal.ITIMER_REAL, 0.00001 * (1 + attempts % 200) * slower, 0.02 * slower)\n"
            "    try: work()\n"
            "    except Raised: raised += 1\n"
            "signal.signal(signal.SIGALRM, signal.SIG_IGN)\ngood >= 300, bad"
        )
        self.assert_with_tools(code, "(True, 0)")
        self.assert_usable()

    def test_time_limits_of_all_sockets_are_not_those_of_the_kernel(self):
        self.run_ok("import socket; socket.setdefaulttimeout(0.000001)")
        self.assert_with_tools("tools.echo(n=1)", "{'n': 1}")
        self.run_ok("import os; os.set_blocking(3, False)")
        self.assert_with_tools("tools.echo(n=2)", "{'n': 2}")
        self.assert_usable()

    def test_without_descriptors_left_there_are_no_tools(self):
        self.assert_with_tools("tools.echo(n=1)", "{'n': 1}")
        code = (
            "import os, resource\nheld = []\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
            "try:\n    while True: held.append(os.dup(1))\nexcept OSError: pass"
        )
        self.run_ok(code)
        for left in range(3):
            self.run_ok("if %d: os.close(held.pop())" % left)
            self.assert_fails("tools.echo(n=1)", "vivarium.ToolUnavailable", "no tools")
        self.run_ok("for it in held: os.close(it)")
        self.assert_with_tools("tools.echo(n=1)", "{'n': 1}")

    def test_what_still_waits_at_the_end_hears_of_it(self):
        code = (
            "import threading\nfound = []\n"
            "def work():\n"
            "    try: tools.echo()\n"
            "    except vivarium.ToolUnavailable as error: found.append(str(error))\n"
            "threads = [threading.Thread(target=work) for _ in range(3)]\n"
            "for t in threads: t.start()\n"
            "import os, time\nwhile not os.path.exists('three'): time.sleep(0.001)\n"
        )
        seen = []

        def third(*_):
            seen.append(1)
            if len(seen) == 3:
                pathlib.Path(self.workdir, "three").touch()

        answer, _ = self.with_tools(IMPORT + code, third)
        self.assertEqual(answer.completion, "ok", answer)
        self.assert_value(
            "for t in threads: t.join(10)\nlen(found), {'over' in it for it in found}",
            "(3, {True})",
        )

    def test_a_task_that_waits_at_the_end_hears_of_it(self):
        code = (
            "import asyncio\nasync def begin():\n    global task\n"
            "    task = asyncio.ensure_future(tools.aio.echo())\n    await asyncio.sleep(0.01)\n"
            "await begin()"
        )
        answer, _ = self.with_tools(IMPORT + code, lambda *_: None)
        self.assertEqual(answer.completion, "ok", answer)
        self.assertIn("over", self.run_error("await task", "vivarium.ToolUnavailable").message)
        self.assert_with_tools("await tools.aio.echo(n=1)", "{'n': 1}")

    def test_nothing_is_left_open(self):
        self.assert_with_tools("tools.echo(n=1), await tools.aio.echo(n=1)", "({'n': 1}, {'n': 1})")
        before = self.run_ok("import os; sorted(os.listdir('/proc/self/fd'))").value
        for _ in range(3):
            self.assert_with_tools(
                "tools.echo(n=1), await tools.aio.echo(n=1)", "({'n': 1}, {'n': 1})"
            )
        self.assertEqual(self.run_ok("sorted(os.listdir('/proc/self/fd'))").value, before)

    def test_forked_processes_can_not_call(self):
        code = (
            "import os\nr, w = os.pipe()\npid = os.fork()\n"
            "if not pid:\n"
            "    try: tools.echo()\n"
            "    except vivarium.ToolUnavailable as error: os.write(w, str(error).encode())\n"
            "    os._exit(0)\n"
            "os.waitpid(pid, 0)\nos.read(r, 100), tools.echo(n=1)"
        )
        self.assert_with_tools(
            code, "(b'echo: a process that code has forked cannot call it', {'n': 1})"
        )
        code = "import subprocess\nsubprocess.run(['ls', '/proc/self/fd'], capture_output=True).stdout.split()"
        self.assert_with_tools(code, "[b'0', b'1', b'2', b'3']")

    def test_a_supervisor_that_closes_ends_calls(self):
        supervisor: Any = None

        def close(*_):
            os.close(supervisor.write_end)
            supervisor.write_end = os.open("/dev/null", os.O_WRONLY)

        supervisor = Supervisor(close)
        answer = self.kernel.run(IMPORT + "tools.echo()", pipes=supervisor.pipes)
        supervisor.finished()
        self.assertEqual(answer.exception, "vivarium.ToolUnavailable", answer)
        self.assertIn("takes no more calls", answer.message)
