"""Against a real daemon: sessions, executions, results and errors."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from daemon import Daemon, requires_modules
from vivarium_client import AnswerForm, AsyncClient, Client, Outcome, Session, errors
from vivarium_client._notebook import safe_bundle


def test_the_host(real: Client) -> None:
    host = real.host()
    assert len(host.layers) == 9
    assert host.environments[0].name == "default"
    assert host.capacity.cpus >= 1


def test_a_run(real: Client) -> None:
    outcome = real.run("import sys; print('out'); print('err', file=sys.stderr); 6 * 7")
    assert (outcome.ok, outcome.status, outcome.state) == (True, "ok", "preserved")
    assert (outcome.text, outcome.stderr, str(outcome.value)) == ("out\n", "err\n", "42")
    assert outcome.value is not None
    assert (outcome.value.type, outcome.value.text) == ("int", "42")
    assert outcome.duration_ms > 0
    assert outcome.raise_for_status() is outcome


def test_outputs_are_in_order_as_in_a_notebook(session: Session) -> None:
    code = "import sys; print('a'); display(1); print('b', file=sys.stderr); 6 * 7"
    outcome = session.execute(code, answer={"format": "notebook"})
    kinds = [output["output_type"] for output in outcome.outputs]
    assert kinds == ["stream", "display_data", "stream", "execute_result"]
    assert outcome.outputs[0] == {"output_type": "stream", "name": "stdout", "text": "a\n"}
    assert (outcome.stdout, outcome.value) == ("", None)
    kept = session.execution(outcome.execution_id).outcome
    assert kept is not None
    assert (kept.stdout, kept.outputs) == ("a\n", ())
    both = session.execution(outcome.execution_id, answer={"format": "both"}).outcome
    assert both is not None
    assert (both.stdout, both.outputs) == ("a\n", outcome.outputs)


ORDERED = [
    """import sys, time
print('a'); time.sleep(0.05); print('b', file=sys.stderr); time.sleep(0.05); print('c\\n')
display({'text/html': '<b>', 'application/json': '{"a": [1.5]}', 'application/x+json': 'NaN',
         'image/png': b'png'}, raw=True)
again = display(1, display_id='x'); print('d'); again.update(2)
display({'application/json': '[' * 101 + ']' * 101, 'application/a+json': '[' * 100 + ']' * 100},
        raw=True)
display({'application/json': '1' * 5000, 'application/a+json': '"\\\\ud800"'}, raw=True)
[1]""",
    """from IPython.display import clear_output
print('gone'); display('gone'); clear_output(); print('kept'); display('kept'); 1 / 0""",
]


@pytest.mark.parametrize("code", ORDERED)
def test_a_stream_ends_with_the_outputs_of_a_plain_answer(session: Session, code: str) -> None:
    stream = session.stream(code)
    streamed = stream.wait()
    form: AnswerForm = {"format": "both"}
    plain = session.execution(streamed.execution_id, answer=form).outcome
    assert plain is not None
    assert len(plain.outputs) > 2
    assert streamed.outputs == plain.outputs
    assert (streamed.displays, streamed.images) == (plain.displays, plain.images)


def test_a_model_gets_as_much_as_was_asked_for(session: Session) -> None:
    code = "print('x' * 10_000)\n'r' * 1000"
    form: AnswerForm = {"format": "notebook"}
    outcome = session.execute(code, max_output_chars=200, keep="head", answer=form)
    text = outcome.as_tool_result()
    assert 200 < len(text) < 500
    assert "characters left out]" in text
    assert [cut.part for cut in outcome.cuts] == ["stdout", "result", "result"]
    assert outcome.cuts[0].kept_chars + outcome.cuts[0].dropped_chars == 10_001
    whole = session.execution(outcome.execution_id).outcome
    assert whole is not None
    assert (len(whole.stdout), whole.cuts) == (10_001, ())
    again = session.execution(
        outcome.execution_id, max_output_chars=200, keep="head", answer=form
    ).outcome
    assert again is not None
    assert again.outputs == outcome.outputs


def test_a_part_told_by_its_size_is_fetched(session: Session) -> None:
    code = "print('x' * 1000)\ndisplay({'text/html': '<b>', 'image/png': b'png'}, raw=True)"
    outcome = session.execute(code, answer={"content": "sizes"})
    assert (outcome.stdout, outcome.displays[0].sizes["image/png"]) == ("", 3)
    number = outcome.execution_id
    assert session.output(number, "stdout") == b"x" * 1000 + b"\n"
    assert session.output(number, "displays/0", mime_type="image/png") == b"png"
    with pytest.raises(errors.NotFound):
        session.output(number, "displays/1")


def test_reprs_are_as_long_as_asked_for(session: Session, real: Client) -> None:
    for run in (session.execute, real.run):
        assert str(run("list(range(9))", repr={"max_items": 2}).value) == "[0, 1, ...]"
    assert len(str(session.execute("list(range(2000))").value)) < 5000


def test_sizes_may_come_without_content(session: Session) -> None:
    code = "print('é'); display({'image/png': b'1234'}, raw=True); 6 * 7"
    outcome = session.execute(code, answer={"content": "sizes"})
    with session.stream(code, answer={"content": "sizes"}) as stream:
        streamed = stream.wait()
    for told in (outcome, streamed):
        assert told.value is not None
        assert (told.value.repr, told.value.size_bytes) == ("", 2)
        assert told.value.sizes == {"text/plain": 2}
        assert (dict(told.displays[0].mime), told.displays[0].sizes) == ({}, {"image/png": 4})
        assert told.stdout_bytes == 3
    assert (outcome.stdout, streamed.stdout) == ("", "é\n")


def test_everything_that_a_run_takes(real: Client, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"\xff\0")
    outcome = real.run(
        "import os\n"
        "(open('a').read(), open('d/b', 'rb').read(), open('c', 'rb').read(), os.environ['E'])",
        files={"a": "é\n", "d/b": b"\0", "c": local},
        env={"E": "1"},
        limits={"max_procs": 8, "cpu_cores": 0.5},
        network="none",
        environment="default",
        timeout=20,
        idempotency_key=f"run-{os.urandom(8).hex()}",
    )
    assert str(outcome.value) == str(("é\n", b"\0", b"\xff\0", "1"))


def test_a_command_that_runs_once_may_have_a_directory(real: Client) -> None:
    files = {"d/a": "there"}
    assert real.run(shell="cat a", cwd="d", files=files).text == "there"
    with real.stream(argv=["cat", "a"], cwd="d", files=files) as stream:
        assert stream.wait().text == "there"


def test_code_may_have_a_file_name(session: Session, real: Client) -> None:
    code = "print(__file__)\n1/0"
    for run in (session.execute, real.run):
        outcome = run(code, filename="sub/a.py", files={"sub/a.py": code})
        path = outcome.text.strip()
        assert path.endswith("/sub/a.py")
        assert outcome.exception is not None
        assert f'File "{path}", line 2, in <module>\n    1/0\n' in outcome.exception.traceback
    for stream in (session.stream("1/0", filename="b"), real.stream("1/0", filename="b")):
        assert list(stream)
        assert stream.outcome is not None
        assert stream.outcome.exception is not None
        assert 'File "b", line 1' in stream.outcome.exception.traceback


def test_variables_survive_from_call_to_call(session: Session) -> None:
    session.execute("x = 41")
    assert str(session.execute("x + 1").value) == "42"
    assert session.reset().ended_execution_id is None
    assert session.execute("x").status == "error"


def test_exceptions_are_outcomes(session: Session) -> None:
    outcome = session.execute("def f():\n    return 1 / 0\n\nf()")
    with pytest.raises(errors.CodeError, match="division by zero") as raised:
        outcome.raise_for_status()
    assert (raised.value.type, raised.value.message) == ("ZeroDivisionError", "division by zero")
    assert "return 1 / 0" in raised.value.traceback
    assert outcome.state == "preserved"


def test_the_time_is_the_codes_own(session: Session) -> None:
    session.execute("x = 1")
    outcome = session.execute("while True: pass", timeout=0.2)
    with pytest.raises(errors.TimedOut, match="wall_time"):
        outcome.raise_for_status()
    assert outcome.state == "preserved"
    assert str(session.execute("x").value) == "1"


def test_a_loss_is_told_with_every_outcome_after_it(session: Session) -> None:
    first = session.execute("x = 1")
    assert first.kernel is not None
    assert (first.kernel.generation, first.kernel.fresh, first.session_created) == (1, True, False)
    session.execute("import os; os._exit(3)")
    session.command(["true"])
    for fresh in (True, False):
        outcome = session.execute("1")
        assert outcome.kernel is not None
        assert (outcome.kernel.generation, outcome.kernel.fresh) == (2, fresh)
        assert outcome.kernel.previous_end is not None
        assert outcome.kernel.previous_end.cause == "exited"
    with session.stream("1") as stream:
        streamed = stream.wait()
    assert streamed.kernel is not None
    assert (streamed.kernel.generation, streamed.kernel.fresh) == (2, False)


def test_a_session_made_twice_with_a_key_is_one(real: Client) -> None:
    key = f"create-{os.urandom(8).hex()}"
    with real.session(idempotency_key=key) as session:
        assert real.session(idempotency_key=key).id == session.id
        assert real.session().id != session.id


def test_deaths_have_a_cause(session: Session) -> None:
    session.execute("x = 1")
    with pytest.raises(errors.Killed) as raised:
        session.execute("import os; os.kill(os.getpid(), 9)").raise_for_status()
    assert raised.value.cause == "signal"
    assert raised.value.outcome.state == "lost"
    assert session.execute("x").status == "error"


def test_a_session_is_as_it_was_asked_for(real: Client) -> None:
    with real.session(
        "as-asked",
        environment="default",
        limits={"max_memory_mb": 256},
        network="none",
        env={"A": "b"},
        idle_timeout=600,
        metadata={"for": "a test"},
    ) as session:
        info = session.info()
        assert (info.id, info.network, info.metadata) == ("as-asked", "none", {"for": "a test"})
        assert info.limits["max_memory_mb"] == 256
        assert 590 < (info.expires_at - info.created_at).total_seconds() < 610
        assert {layer.status for layer in info.protection} <= {"enforced", "partial", "unavailable"}
        assert str(session.execute("import os; os.environ['A']").value) == "'b'"
        assert session.info().usage.executions == 1
        assert session.keepalive() >= info.expires_at
        assert not session.interrupt().interrupted
        with pytest.raises(errors.Conflict) as raised:
            real.session("as-asked")
        assert raised.value.code == "session_exists"
        assert "as-asked" in [listed.id for listed in real.sessions()]
    with pytest.raises(errors.NotFound):
        session.info()
    assert not session.delete()


def test_a_session_can_be_changed_found_and_asked_for_its_executions(real: Client) -> None:
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    with real.session(metadata={"a": "1", "b": "2"}, deadline=soon) as session:
        assert session.info().deadline == soon
        info = session.update(
            metadata={"a": None, "c": "x y"},
            idle_timeout=60,
            deadline="default",
            limits={"max_output_bytes": 10},
        )
        assert (info.metadata, info.idle_timeout_ms) == ({"b": "2", "c": "x y"}, 60_000)
        assert (info.deadline, info.limits["max_output_bytes"], info.running) == (None, 10, ())
        found = [one.id for one in real.sessions(state="idle", metadata={"c": "x y", "b": "2"})]
        assert found == [session.id]
        assert not list(real.sessions(metadata={"c": "x"}))
        session.execute("1")
        session.command(["true"])
        kinds = [(one.id, one.kind, one.status) for one in session.executions()]
        assert kinds == [("2", "command", "ok"), ("1", "code", "ok")]
        with pytest.raises(errors.InvalidRequest) as raised:
            session.update(limits={"max_output_bytes": 11}, metadata={"c": None})
        assert raised.value.field == "limits.max_output_bytes"
        assert session.info().metadata == info.metadata
        with pytest.raises(ValueError, match="time zone"):
            session.update(deadline=datetime(2100, 1, 1))


def test_an_attached_session_stays(real: Client, session: Session) -> None:
    session.execute("x = 1")
    with real.attach(session.id) as attached:
        assert str(attached.execute("x").value) == "1"
    assert session.info().id == session.id


def test_a_session_may_be_made_by_its_first_execution(real: Client) -> None:
    attached = real.attach("made-by-execute")
    with pytest.raises(errors.NotFound) as raised:
        attached.execute("1")
    assert raised.value.code == "unknown_session"
    assert attached.execute("1", create=True).ok
    assert attached.delete()


def test_refusals_name_the_field(real: Client, session: Session) -> None:
    for refused, field in (
        (lambda: real.session(limits={"max_memory_mb": "unlimited"}), "limits.max_memory_mb"),
        (lambda: real.session(network="full"), "network"),
        (lambda: real.session("a/b"), "id"),
        (lambda: session.execute("1", timeout=0), "timeout_ms"),
        (lambda: session.execute("1", files={"../a": ""}), "files[0].name"),
    ):
        with pytest.raises(errors.InvalidRequest) as raised:
            refused()
        assert (raised.value.code, raised.value.field) == ("invalid_field", field)


def test_a_path_does_not_leave_its_route(real: Client) -> None:
    for id in ("..", ".", "a/b", ""):
        with pytest.raises(errors.ApiError):
            real.attach(id).info()


def test_asyncio(daemon: Daemon) -> None:
    async def main() -> list[Outcome]:
        async with AsyncClient(daemon.url) as client, client.session() as session:
            await session.execute("x = 0")
            runs = (client.run(f"print({n})") for n in range(3))
            executions = (session.execute("x += 1; x") for _ in range(3))
            return list(await asyncio.gather(*runs, *executions))

    outcomes = asyncio.run(main())
    assert [outcome.text for outcome in outcomes[:3]] == ["0\n", "1\n", "2\n"]
    assert sorted(str(outcome.value) for outcome in outcomes[3:]) == ["1", "2", "3"]


def test_a_second_request_with_the_key_is_the_first(session: Session) -> None:
    session.execute("n = 0")
    key = f"key-{os.urandom(8).hex()}"
    first = session.execute("n += 1; n", idempotency_key=key)
    second = session.execute("n += 1; n", idempotency_key=key)
    assert first == second
    assert str(session.execute("n").value) == "1"
    with pytest.raises(errors.InvalidRequest) as raised:
        session.execute("n += 2", idempotency_key=key)
    assert raised.value.code == "idempotency_key_reused"


def test_outputs_come_back_typed(session: Session, tmp_path: Path) -> None:
    outcome = session.execute(
        "open('a.txt', 'w').write('é'); open('b.bin', 'wb').write(b'\\xff\\0')",
        outputs=["a.txt", "b.bin", {"name": "a.txt", "format": "text"}, "gone"],
    )
    assert outcome.files["a.txt"].text == "é"
    assert outcome.files["b.bin"].bytes == b"\xff\0"
    assert outcome.files["b.bin"].save(tmp_path).read_bytes() == b"\xff\0"
    with pytest.raises(errors.OutputFileError, match="gone"):
        outcome.files["gone"].save(tmp_path)
    assert {changed.name for changed in outcome.files_changed} == {"a.txt", "b.bin"}
    assert not outcome.files_changed_more


def test_displays(session: Session) -> None:
    outcome = session.execute(
        "class Shown:\n"
        "    def _repr_html_(self): return '<b>shown</b>'\n"
        "    def __repr__(self): return 'Shown()'\n"
        "display(Shown())\n"
        "Shown()"
    )
    assert [shown.html for shown in outcome.displays] == ["<b>shown</b>"]
    assert outcome.value is not None
    assert (outcome.value.repr, outcome.value.html) == ("Shown()", "<b>shown</b>")


def test_an_outcome_says_what_happened(session: Session) -> None:
    shown = session.execute(
        "import sys\n"
        "from IPython.display import Latex, Markdown\n"
        "print('\\x1b[2Jout'); print('err', file=sys.stderr)\n"
        "open('a', 'w').write('x')\n"
        "display(Markdown('# Title'))\n"
        "Latex('$x^2$')"
    )
    assert str(shown).startswith("\\x1b[2Jout\n[stderr]\nerr\n# Title\n")
    assert str(shown).endswith("\n[files changed: a (1 byte)]")
    assert shown.value is not None
    assert safe_bundle(shown.value.mime)["text/latex"] == "$x^2$"
    failed = session.execute("1/0").as_tool_result("mcp")
    assert failed["isError"]
    text = failed["content"][0]["text"]
    assert text.endswith("ZeroDivisionError: division by zero\n[error: ZeroDivisionError]")


def test_a_plot_is_an_image(real: Client) -> None:
    requires_modules("matplotlib")
    outcome = real.run(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()", timeout=300
    )
    [image] = outcome.raise_for_status().images
    assert image.mime_type == "image/png"
    assert image.pil().size[0] > 100


def test_completeness(session: Session) -> None:
    block = session.is_complete("if x:")
    assert (block.status, block.indent) == ("incomplete", "    ")
    assert session.is_complete("!ls").status == "complete"
    assert session.is_complete(")").status == "invalid"


def test_completion_and_inspection(session: Session) -> None:
    session.execute("def twice(number):\n    'Twice as much.'\n    return 2 * number\n")
    completions = session.complete("x = twi")
    assert "twice" in [match.text.rstrip("(") for match in completions.matches]
    assert (completions.start, completions.end) == (4, 7)
    assert "twice" in [match.text.rstrip("(") for match in session.complete("twi + 1", 3).matches]
    inspection = session.inspect("twice(", 3)
    assert inspection.found
    assert (inspection.docstring, inspection.type) == ("Twice as much.", "function")
    assert "number" in inspection.signature
    assert not session.inspect("nothing_of_this_name").found
