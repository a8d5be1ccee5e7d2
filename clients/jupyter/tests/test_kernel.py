"""A kernel of a real daemon, as a frontend sees it."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from vivarium_client import Client

from daemon import Daemon
from notebook import Notebook, install

ENDLESS = "print('runs', flush=True)\nwhile True: pass"


def runs(content: dict[str, Any]) -> bool:
    return content.get("text") == "runs\n"


@pytest.fixture
def client(daemon: Daemon) -> Iterator[Client]:
    with Client(daemon.url) as client:
        yield client


def ids(client: Client) -> set[str]:
    return {info.id for info in client.sessions()}


@pytest.fixture(scope="module")
def shared(vivarium: str) -> Iterator[Notebook]:
    """A kernel for tests that leave it as it is."""
    with Notebook(vivarium) as notebook:
        yield notebook


def test_variables_stay_and_executions_are_counted(notebook: Notebook) -> None:
    assert notebook.run("x = 41")[0]["execution_count"] == 1
    reply, published = notebook.run("x + 1")
    assert reply["execution_count"] == 2
    assert ("execute_input", {"code": "x + 1", "execution_count": 2}) in published
    assert published[-1][1]["data"] == {"text/plain": "42"}
    assert published[-1][1]["execution_count"] == 2
    silent = notebook.run("print(1); 2", silent=True)
    assert [kind for kind, _ in silent[1]] == ["stream"]
    assert notebook.run("3", store_history=False)[0]["execution_count"] == 3
    assert notebook.run("4")[0]["execution_count"] == 3
    assert notebook.run("5")[0]["execution_count"] == 4


def test_output_comes_while_code_runs_and_an_interrupt_ends_it(notebook: Notebook) -> None:
    notebook.run("x = 1")
    id = notebook.send(ENDLESS)
    notebook.published(id, runs)
    notebook.manager.interrupt_kernel()
    reply = notebook.reply(id)
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert [kind for kind, _ in notebook.published(id)] == ["error"]
    assert notebook.value("x") == "1"


def test_sigint_interrupts_the_session_and_not_the_kernel(notebook: Notebook) -> None:
    os.kill(notebook.pid, signal.SIGINT)
    # It has seen the signal once it answers.
    notebook.reply(notebook.client.kernel_info())
    id = notebook.send(ENDLESS)
    notebook.published(id, runs)
    os.kill(notebook.pid, signal.SIGINT)
    assert notebook.reply(id)["ename"] == "KeyboardInterrupt"
    notebook.published(id)
    assert notebook.value("6 * 7") == "42"


def test_what_waits_behind_an_error_is_aborted(notebook: Notebook) -> None:
    for stops, last in ((True, "aborted"), (False, "ok")):
        first = notebook.send(ENDLESS, stop_on_error=stops)
        second = notebook.send("1")
        notebook.published(first, runs)
        notebook.manager.interrupt_kernel()
        assert notebook.reply(first)["status"] == "error"
        assert notebook.reply(second)["status"] == last
        notebook.published(second)
        assert notebook.run("1")[0]["status"] == "ok"


def test_a_kernel_that_dies_is_named_and_counts_from_1(notebook: Notebook) -> None:
    notebook.run("x = 1")
    reply, published = notebook.run("import os; os.kill(os.getpid(), 9)")
    assert (reply["status"], reply["ename"], reply["execution_count"]) == ("error", "signal", 2)
    assert reply["evalue"].endswith("The kernel was lost, and its variables with it")
    assert [kind for kind, _ in published] == ["execute_input", "error"]
    reply, _ = notebook.run("x")
    assert (reply["ename"], reply["execution_count"]) == ("NameError", 1)


def test_memory_ends_the_code_and_not_the_notebook(notebook: Notebook) -> None:
    reply, _ = notebook.run("x = [bytes(2**20) for _ in range(2**20)]")
    assert reply["ename"] in ("MemoryError", "memory_limit")
    assert notebook.value("6 * 7") == "42"


def test_a_session_that_is_gone_is_said_and_replaced(notebook: Notebook, client: Client) -> None:
    others = ids(client)
    notebook.run("x = 1")
    (id,) = ids(client) - others
    client.attach(id).delete()
    reply, _ = notebook.run("x")
    assert (reply["ename"], reply["execution_count"]) == ("unknown_session", 2)
    reply, _ = notebook.run("x")
    assert (reply["ename"], reply["execution_count"]) == ("NameError", 1)


def test_two_kernels_share_nothing(notebook: Notebook, vivarium: str) -> None:
    with Notebook(vivarium) as other:
        notebook.run("x = 1; open('f', 'w').close()")
        other.run("x = 2")
        assert (notebook.value("x"), other.value("x")) == ("1", "2")
        assert other.value("import os; os.path.exists('f')") == "False"


@pytest.mark.parametrize("now", [False, True], ids=["asked", "killed"])
def test_a_restart_keeps_files_and_nothing_else(
    notebook: Notebook, client: Client, now: bool
) -> None:
    notebook.run("x = 1; open('f', 'w').close()")
    id = notebook.send(ENDLESS)
    notebook.published(id, runs)
    before = ids(client)
    notebook.manager.restart_kernel(now=now)
    notebook.client.wait_for_ready()
    reply, _ = notebook.run("x")
    assert (reply["ename"], reply["execution_count"]) == ("NameError", 1)
    assert notebook.value("import os; os.path.exists('f')") == "True"
    assert ids(client) == before


def test_a_shutdown_ends_the_session(notebook: Notebook, client: Client) -> None:
    others = ids(client)
    id = notebook.send(ENDLESS, stop_on_error=False)
    for _ in range(3):
        notebook.send("1", stop_on_error=False)
    notebook.published(id, runs)
    assert len(ids(client) - others) == 1
    provisioner: Any = notebook.manager.provisioner
    process = provisioner.process
    notebook.client.shutdown()
    assert notebook.reply(id)["status"] == "error"
    assert notebook.manager.has_kernel
    notebook.manager.finish_shutdown()
    assert process.returncode == 0
    assert ids(client) == others


def test_comms_are_closed(shared: Notebook) -> None:
    session, channel = shared.client.session, shared.client.shell_channel
    content = {"comm_id": "c", "target_name": "jupyter.widget", "data": {}}
    message = session.msg("comm_open", content)
    channel.send(message)
    published = shared.published(message["header"]["msg_id"])
    assert published == [("comm_close", {"comm_id": "c", "data": {}})]


def test_what_there_is_not_is_said(shared: Notebook) -> None:
    reply, _ = shared.run("1", user_expressions={"a": "1"})
    assert reply["user_expressions"]["a"]["ename"] == "NotSupported"
    reply, _ = shared.run("input('name? ')", allow_stdin=True)
    assert reply["ename"] == "EOFError"
    assert "no standard input" in reply["evalue"]
    id = shared.client.kernel_info()
    assert shared.reply(id)["supported_features"] == []


def test_displays_are_shown_and_replaced(shared: Notebook) -> None:
    code = (
        "from IPython.display import display\nh = display('a', display_id='d')\nh.update('b')\nNone"
    )
    _, published = shared.run(code)
    shown = [(kind, content["transient"]) for kind, content in published[1:]]
    assert shown == [
        ("display_data", {"display_id": "d"}),
        ("update_display_data", {"display_id": "d"}),
    ]
    code = "display({'application/json': '{\"a\": [1]}', 'image/png': 'iVBOR'}, raw=True)"
    _, published = shared.run(code)
    assert published[1][1]["data"]["application/json"] == {"a": [1]}


@pytest.mark.parametrize(
    "code",
    [
        "import sys; sys.stdout.buffer.write(bytes(range(256))); sys.stdout.flush()",
        r"print('\x00\x1b]52;c;eA==\x07\r\b\u202e\ud800')",
        r"raise ValueError('\ud800\x00\r\n' * 1000)",
        r"raise type('\x1b[2J', (Exception,), {})('x')",
        r"type('R', (), {'__repr__': lambda self: '\udcff\x00'})()",
        "display({'application/json': '[' * 100000}, raw=True)",
        "display({'application/json': '[' * 900 + ']' * 900, 'a/b': '1'}, raw=True)",
        r"""display({'application/json': '{"\\ud800": NaN}', 'x': '\udcff'}, raw=True)""",
        "display({'text/html': '<script>' * 100000}, raw=True, display_id='\\x00')",
        "print('x' * 10**7)",
    ],
)
def test_hostile_output_is_passed_on_as_data(shared: Notebook, code: str) -> None:
    reply, published = shared.run("from IPython.display import display\n" + code)
    assert reply["status"] == ("error" if code.startswith("raise") else "ok")
    assert len(published) > 1
    assert shared.value("6 * 7") == "42"


def test_a_daemon_that_is_gone_is_said(kernels: Path) -> None:
    gone = Daemon()
    daemons = ExitStack()
    daemons.callback(gone.stop)
    name = install(kernels, "gone", "--url", gone.url)
    with daemons, Notebook(name) as notebook:
        assert notebook.value("6 * 7") == "42"
        daemons.close()
        for _ in range(2):
            reply, published = notebook.run("6 * 7")
            assert (reply["status"], reply["ename"]) == ("error", "TransportError")
            assert published[-1][0] == "error"
        assert notebook.reply(notebook.client.complete("zi"))["status"] == "error"
        assert notebook.reply(notebook.client.inspect("zip"))["status"] == "error"
        assert notebook.reply(notebook.client.is_complete("1"))["status"] == "unknown"
        notebook.manager.interrupt_kernel()
        assert notebook.manager.is_alive()


TOKEN = "viv-token-of-a-test-with-enough-characters"


@pytest.fixture
def team() -> Iterator[Daemon]:
    """A daemon with a tenant, an environment and little time."""
    hash = hashlib.sha256(TOKEN.encode()).hexdigest()
    daemon = Daemon(
        '[environments.other]\ninterpreter = "/usr/bin/python3"\n'
        '[session]\nexec_timeout = "200ms"\n'
        f'[[tenant]]\nname = "team"\ntoken_sha256 = ["{hash}"]\n'
    )
    yield daemon
    daemon.stop()


def test_tokens_environments_and_times_are_those_of_the_daemon(kernels: Path, team: Daemon) -> None:
    name = install(kernels, "team", "--url", team.url, "--environment", "other")
    for wrong in ({}, {"VIVARIUM_TOKEN": "wrong"}):
        with Notebook(name, **wrong) as notebook:
            reply, _ = notebook.run("6 * 7")
            assert (reply["status"], reply["ename"]) == ("error", "unauthenticated")
    with Notebook(name, VIVARIUM_TOKEN=TOKEN) as notebook, Client(team.url, TOKEN) as client:
        # As long as the daemon allows, where a call of the API has 200 ms.
        sleeps = "import time; time.sleep(0.5); 42"
        assert client.run(sleeps).status == "timed_out"
        assert notebook.value(sleeps) == "42"
        assert [info.environment for info in client.sessions()] == ["other"]
        assert notebook.value("import os; 'VIVARIUM_TOKEN' in os.environ") == "False"
    name = install(kernels, "unknown", "--url", team.url, "--environment", "no-such")
    with Notebook(name, VIVARIUM_TOKEN=TOKEN) as notebook:
        assert "no-such" in notebook.run("1")[0]["evalue"]
