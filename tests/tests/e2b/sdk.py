"""What users of E2B's Python SDK do, against a server that E2B_API_URL and others name.

Usage: sdk.py all|envd. With envd, code is not run: older SDKs ask an address of E2B's own to do it.
"""

import io
import sys
import threading
import urllib.error
import urllib.request

import e2b
import httpcore

try:
    from e2b_code_interpreter import Sandbox
except ImportError:
    from e2b import Sandbox


# Old SDKs wait no longer than the server, and may be the first to give up.
IS_NEW = sys.argv[1] == "all"
LATE = e2b.TimeoutException if IS_NEW else (e2b.TimeoutException, httpcore.ReadTimeout)


def raises(kind, action):
    try:
        action()
    except kind as error:
        return error
    raise AssertionError(f"no {kind}")


def life(sandbox):
    assert sandbox.is_running()
    info = sandbox.get_info()
    assert info.metadata == {"for": "a & b"}, info
    sandbox.set_timeout(500)
    later = sandbox.get_info()
    assert (later.end_at - info.end_at).total_seconds() > 100, (info, later)
    query = e2b.SandboxQuery(metadata={"for": "a & b"})
    pages = Sandbox.list(query=query)
    assert [found.sandbox_id for found in pages.next_items()] == [sandbox.sandbox_id]
    assert not pages.has_next
    assert Sandbox.list(query=e2b.SandboxQuery(metadata={"for": "b"})).next_items() == []
    metrics = sandbox.get_metrics()
    assert metrics and metrics[-1].cpu_count >= 1, metrics
    assert Sandbox.connect(sandbox.sandbox_id).is_running()
    raises(e2b.SandboxException, sandbox.create_snapshot)


def files(sandbox):
    there = sandbox.files
    there.write("a/b.txt", "héllo")
    assert there.read("a/b.txt") == "héllo"
    assert there.exists("a/b.txt") and not there.exists("missing")
    info = there.get_info("a/b.txt")
    assert (info.path, info.mode) == ("/home/user/a/b.txt", 0o644), info
    assert (info.permissions, info.owner, info.size) == ("-rw-r--r--", "user", 6), info
    assert there.make_dir("d") is True
    assert there.make_dir("d") is False
    assert [entry.name for entry in there.list("a")] == ["b.txt"]
    assert there.rename("a/b.txt", "d/c.txt").path == "/home/user/d/c.txt"
    there.remove("d/c.txt")
    there.remove("missing")
    raises(e2b.NotFoundException, lambda: there.read("missing"))
    raises(e2b.InvalidArgumentException, lambda: there.read("d"))
    there.write_files([{"path": "one", "data": b"1"}, {"path": "/tmp/two", "data": "2"}])
    assert bytes(there.read("one", format="bytes")) == b"1"
    assert there.read("/tmp/two") == "2"
    there.write("stream", io.BytesIO(b"x" * 3_000_000))
    assert sum(len(piece) for piece in there.read("stream", format="stream")) == 3_000_000
    raises(e2b.SandboxException, lambda: there.read("/etc/passwd"))
    there.write("deep/1/2.txt", "")
    paths = [entry.path for entry in there.list("deep", depth=2)]
    assert paths == ["/home/user/deep/1", "/home/user/deep/1/2.txt"], paths


def large_files(sandbox):
    """More than a body may have; compressed; with names that need quoting."""
    sandbox.files.write("large", io.BytesIO(b"x" * 40_000_000))
    assert sandbox.files.get_info("large").size == 40_000_000
    sandbox.files.remove("large")
    sandbox.files.write("zipped", "zipped", gzip=True)
    assert sandbox.files.read("zipped", gzip=True) == "zipped"
    sandbox.files.write("a b'ü\".txt", "quoted")
    assert sandbox.files.read("a b'ü\".txt") == "quoted"


def signed_urls(sandbox):
    sandbox.files.write("to sign.txt", "signed")
    url = sandbox.download_url("to sign.txt", use_signature_expiration=60)
    assert urllib.request.urlopen(url).read() == b"signed"
    late = sandbox.download_url("to sign.txt", use_signature_expiration=-60)
    for bad, message in [
        (url.replace("sign.txt", "sogn.txt"), b"invalid signature"),
        (late, b"signature is already expired"),
        (url.split("&signature")[0], b"missing signature query parameter"),
    ]:
        error = raises(urllib.error.HTTPError, lambda bad=bad: urllib.request.urlopen(bad))
        assert error.code == 401 and message in error.read(), bad


def watching(sandbox):
    there = sandbox.files
    there.make_dir("watched")
    handle = there.watch_dir("watched")
    there.write("watched/new.txt", "1")
    events = [(event.type.name, event.name) for event in handle.get_new_events()]
    assert ("CREATE", "new.txt") in events and ("WRITE", "new.txt") in events, events
    there.remove("watched/new.txt")
    events = [(event.type.name, event.name) for event in handle.get_new_events()]
    assert events == [("REMOVE", "new.txt")], events
    handle.stop()
    raises(e2b.NotFoundException, lambda: there.watch_dir("missing"))
    raises(e2b.SandboxException, lambda: there.watch_dir("one"))


def commands(sandbox):
    run = sandbox.commands.run
    said = run("echo out; echo err >&2; pwd; echo $HOME $X", envs={"X": "1"})
    assert said.stdout == "out\n/home/user\n/home/user 1\n", said
    assert (said.stderr, said.exit_code) == ("err\n", 0), said
    assert raises(e2b.CommandExitException, lambda: run("exit 3")).exit_code == 3
    assert run("pwd", cwd="/tmp").stdout == "/tmp\n"
    raises(e2b.InvalidArgumentException, lambda: run("pwd", cwd="/home/user/missing"))
    raises(LATE, lambda: run("sleep 10", timeout=1))
    raises(e2b.AuthenticationException, lambda: run("id", user="nobody"))
    sleeping = run("sleep 100", background=True)
    assert sleeping.pid in [process.pid for process in sandbox.commands.list()]
    again = sandbox.commands.connect(sleeping.pid)
    assert again.kill() is True
    assert raises(e2b.CommandExitException, sleeping.wait).exit_code != 0
    assert sandbox.commands.kill(sleeping.pid) is False
    raises(e2b.NotFoundException, lambda: sandbox.commands.connect(9999))
    counting = run("for i in 1 2 3; do echo $i; sleep 0.2; done", background=True)
    counting.disconnect()
    assert sandbox.commands.connect(counting.pid).wait().stdout == "1\n2\n3\n"
    typed = run("head -n 1", background=True, stdin=True)
    sandbox.commands.send_stdin(typed.pid, "typed\n")
    assert typed.wait().stdout == "typed\n"


def streamed_input(sandbox):
    cat = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.stream_input(cat.pid, ["a", "b"])
    sandbox.commands.close_stdin(cat.pid)
    assert cat.wait().stdout == "ab"


def terminals(sandbox):
    from e2b.sandbox.commands.command_handle import PtySize

    shown = []
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.resize(terminal.pid, PtySize(rows=30, cols=100))
    sandbox.pty.send_stdin(terminal.pid, b"stty size; echo done$((1+1)); exit\n")
    terminal.wait(on_pty=shown.append)
    shown = b"".join(shown)
    assert b"30 100" in shown and b"done2" in shown, shown


def code(sandbox):
    run = sandbox.run_code
    first = run("x = 1\nprint('out')\nx + 1")
    assert (first.text, first.logs.stdout, first.execution_count) == ("2", ["out\n"], 1), first
    assert run("x").text == "1"
    home = run("import os; os.path.expanduser('~'), os.environ['GIVEN']").text
    assert home == "('/home/user', 'yes')", home
    assert run("'text'").text == "text"
    assert run("1/0").error.name == "ZeroDivisionError"
    inner = "def f():\n class Wrong(Exception): pass\n raise Wrong('why')\nf()"
    error = run(inner).error
    assert (error.name, error.value) == ("Wrong", "why"), error
    assert run("!pwd").logs.stdout == ["/home/user\n"]
    assert run("os.environ['ONCE']", envs={"ONCE": "1"}).text == "1"
    heard = []
    run("print('heard')", on_stdout=lambda message: heard.append(message.line))
    assert heard == ["heard\n"], heard
    raises(e2b.SandboxException, lambda: run("1", language="r"))


def results(sandbox):
    """Every type of content that has a member of its own."""
    shown = {
        "text/html": ("html", "<b>"),
        "text/markdown": ("markdown", "# a"),
        "text/latex": ("latex", "$x$"),
        "image/svg+xml": ("svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
        "application/javascript": ("javascript", "1"),
        "application/json": ("json", {"a": 1}),
    }
    show = "class Own:\n def _repr_mimebundle_(self, **_): return {}\ndisplay(Own())"
    for kind, (member, content) in shown.items():
        execution = sandbox.run_code(show.format({kind: content, "text/plain": "plain"}))
        assert not execution.error, execution.error
        (result,) = execution.results
        assert result[member] == content and result.text == "plain", (member, result.raw)
        assert not result.is_main_result
    png = "def _repr_png_(self): return b'\\x89PNG'"
    own = f"class Own:\n {png}\n def __repr__(self): return 'own'\nOwn()"
    (result,) = sandbox.run_code(own).results
    assert (result.text, result.png) == ("own", "iVBORw=="), result
    assert result.is_main_result


def contexts(sandbox):
    context = sandbox.create_code_context(cwd="/home/user/elsewhere")
    place = sandbox.run_code("y = 1; import os; os.getcwd()", context=context).text
    assert place.endswith("/elsewhere")
    assert sandbox.run_code("y", context=context).text == "1"
    assert sandbox.run_code("y").error.name == "NameError"
    assert sandbox.list_code_contexts()[-1].id == context.id
    sandbox.restart_code_context(context)
    assert sandbox.run_code("y", context=context).error.name == "NameError"
    sandbox.remove_code_context(context)
    raises(e2b.NotFoundException, lambda: sandbox.run_code("1", context=context))


def leaving(sandbox):
    """Who leaves interrupts the code, and a sandbox that is killed says so."""
    slow = "import time; time.sleep(100)"
    raises(e2b.TimeoutException, lambda: sandbox.run_code(slow, timeout=2))
    assert sandbox.run_code("1 + 1", timeout=30).text == "2"
    other = Sandbox.create(timeout=60)
    timer = threading.Timer(1, other.kill)
    timer.start()
    error = raises(e2b.TimeoutException, lambda: other.run_code("import time; time.sleep(100)"))
    assert "was killed" in str(error), error
    timer.join()


def pausing(sandbox):
    """Variables and files of a sandbox are as they were, once its client connects."""
    other = Sandbox.create(timeout=120)
    other.run_code("kept = 9")
    other.files.write("kept.txt", "kept")
    other.pause()
    assert not other.is_running()
    assert other.get_info().state.value == "paused", other.get_info()
    raises(e2b.SandboxException, lambda: other.run_code("kept"))
    again = Sandbox.connect(other.sandbox_id)
    assert again.run_code("kept").text == "9"
    assert again.files.read("kept.txt") == "kept"
    assert again.kill() is True


def end(sandbox):
    running = sandbox.commands.run("sleep 100", background=True)
    assert sandbox.kill() is True
    raises(e2b.SandboxException, running.wait)
    assert not sandbox.is_running()
    assert sandbox.kill() is False
    raises(e2b.SandboxException, lambda: sandbox.commands.run("true"))


def main():
    sandbox = Sandbox.create(timeout=120, metadata={"for": "a & b"}, envs={"GIVEN": "yes"})
    parts = [life, files, signed_urls, watching, commands, terminals]
    if sys.argv[1] == "all":
        parts += [large_files, streamed_input, code, results, contexts, leaving, pausing]
    for part in [*parts, end]:
        print(part.__name__, flush=True)
        part(sandbox)
    print("passed")


main()
