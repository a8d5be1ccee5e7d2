"""Against a real daemon: commands in the background, their input, signals, events and ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from daemon import Daemon, Relay
from vivarium_client import (
    AsyncClient,
    Client,
    Conflict,
    InvalidRequest,
    NotFound,
    Session,
    Stdout,
)

# Prints each line as it comes, and nothing once its input ends.
ECHO = 'while read line; do echo "got $line"; done; echo over'


def line(texts: Iterator[str]) -> str:
    """The next line, which may come in parts."""
    text = next(texts)
    while not text.endswith("\n"):
        text += next(texts)
    return text


def test_it_runs_beside_code(session: Session) -> None:
    process = session.start(shell="echo ready; while ! test -e go; do sleep 0.01; done")
    assert process.poll() is None
    assert session.info().state == "idle"
    # The command waits for what this makes.
    assert str(session.execute("open('go', 'w').close(); 7").value) == "7"
    outcome = process.wait()
    assert (outcome.ok, outcome.stdout, outcome.exit_code) == (True, "ready\n", 0)
    assert process.poll() == outcome


def test_a_command_does_not_wait_for_code(session: Session) -> None:
    code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    with session.stream(code) as stream:
        assert session.command(shell="touch go; echo $A", env={"A": "b"}).text == "b\n"
        assert stream.wait().ok
    with session.stream(code.replace("go", "on")) as stream:
        queued = threading.Thread(target=session.command, args=(["true"],), kwargs={"queued": True})
        queued.start()
        session.command(["touch", "on"])
        assert stream.wait().ok
        queued.join()


def test_code_has_its_own_directory_and_variables(session: Session, real: Client) -> None:
    session.command(["mkdir", "sub"])
    code = "import os; os.path.basename(os.getcwd()), os.environ.get('A')"
    assert str(session.execute(code, cwd="sub", env={"A": "b"}).value) == "('sub', 'b')"
    assert str(session.execute(code).value) == "('workspace', None)"
    outcome = real.run(code, cwd="d", files={"d/f": ""}, env={"A": "c"})
    assert str(outcome.value) == "('d', 'c')"


def test_it_is_written_to_and_read_from(session: Session) -> None:
    process = session.start(["sh", "-c", ECHO], stdin_open=True)
    with process.stream() as stream:
        texts = (one.text for one in stream if isinstance(one, Stdout))
        for word in ("one", "two"):
            assert process.write(f"{word}\n") == 4
            assert line(texts) == f"got {word}\n"
        process.close_stdin()
        assert stream.wait().text == "got one\ngot two\nover\n"
    assert process.wait().text == "got one\ngot two\nover\n"
    with pytest.raises(Conflict) as raised:
        process.write("three\n")
    assert raised.value.code == "not_running"
    process.close_stdin()


def test_much_is_written(session: Session) -> None:
    process = session.start(["wc", "-c"], stdin_open=True)
    assert process.write(b"x" * 3_000_000) == 3_000_000
    process.close_stdin()
    assert process.wait().text.strip() == "3000000"


def test_who_has_no_open_input_says_so(session: Session) -> None:
    process = session.start(["sleep", "1000"], stdin="all")
    with pytest.raises(Conflict) as raised:
        process.write("x")
    assert raised.value.code == "no_stdin"
    with pytest.raises(Conflict):
        process.close_stdin()
    assert process.kill()


def test_signals_and_ends(session: Session) -> None:
    handler = "trap 'echo hup' HUP; trap 'echo term; exit 3' TERM; echo ready; "
    process = session.start(shell=f"{handler} while true; do sleep 0.01; done")
    with process.stream() as stream:
        texts = (one.text for one in stream if isinstance(one, Stdout))
        assert line(texts) == "ready\n"
        assert process.send_signal("SIGHUP")
        assert line(texts) == "hup\n"
        assert process.terminate()
        assert line(texts) == "term\n"
    outcome = process.wait()
    assert (outcome.status, outcome.exit_code) == ("error", 3)
    assert not process.terminate()
    killed = session.start(["sleep", "1000"])
    assert killed.kill()
    assert killed.wait(timeout=60).cause == "signal"
    with pytest.raises(InvalidRequest):
        killed.send_signal("SIGNONSENSE")


def test_it_may_have_a_terminal(session: Session) -> None:
    shell = "stty -echo; stty size; while read line; do stty size; done; echo over >&2"
    process = session.start(shell=shell, stdin_open=True, pty=(80, 24))
    with process.stream() as stream:
        texts = (one.text for one in stream if isinstance(one, Stdout))
        assert line(texts) == "24 80\r\n"
        process.resize(100, 30)
        process.write("\n")
        assert line(texts) == "30 100\r\n"
        process.close_stdin()
        assert stream.wait().stdout.endswith("over\r\n")


def test_a_wait_may_end_before_the_process(session: Session) -> None:
    process = session.start(["sleep", "1000"])
    with pytest.raises(TimeoutError):
        process.wait(timeout=0.05)
    assert process.poll() is None
    late = session.start(["sleep", "1000"], timeout=0.1)
    assert late.wait().status == "timed_out"


def test_another_client_finds_it_by_its_id(
    daemon: Daemon, session: Session, pauses: list[float]
) -> None:
    process = session.start(["sh", "-c", ECHO], stdin_open=True)
    relay = Relay(daemon, 0, 300, 400)
    try:
        with Client(relay.url, max_retries=4) as client:
            found = client.attach(session.id).process(process.id)
            process.write("one\n" * 1000)
            process.close_stdin()
            assert found.wait().stdout == "got one\n" * 1000 + "over\n"
    finally:
        relay.close()
    with pytest.raises(NotFound):
        session.process("999").wait()
    with pytest.raises(NotFound):
        session.process("999").kill()


def test_a_reset_ends_it(session: Session) -> None:
    process = session.start(shell="echo ready; exec sleep 1000")
    with process.stream() as stream:
        next(one for one in stream if isinstance(one, Stdout))
    session.reset()
    outcome = process.wait()
    assert (outcome.status, outcome.cause) == ("killed", "reset")


def test_asyncio(daemon: Daemon) -> None:
    async def main() -> None:
        async with AsyncClient(daemon.url) as client, client.session() as session:
            process = await session.start(["sh", "-c", ECHO], stdin_open=True)
            waiting = asyncio.create_task(process.wait())
            async with process.stream() as stream:
                assert await process.write(b"one\n") == 4
                async for event in stream:
                    if isinstance(event, Stdout) and event.text == "got one\n":
                        await process.close_stdin()
            assert (await waiting).text == "got one\nover\n"
            again = session.process((await session.start(["sleep", "1000"])).id)
            with pytest.raises(TimeoutError):
                await again.wait(timeout=0.05)
            assert await again.terminate()
            assert (await again.wait()).cause == "signal"

    asyncio.run(main())
