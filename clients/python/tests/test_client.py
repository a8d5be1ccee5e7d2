"""Which requests are sent, and where."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any, Callable

import httpx
import pytest

from fake import Fake, Reply, Seen, js, problem
from samples import OUTCOME, SESSION
from vivarium_client import Client, _httpx, errors
from vivarium_client._core.address import Address
from vivarium_client.models import Completeness, Reset


@pytest.mark.parametrize(
    ("url", "base", "socket"),
    [
        ("http://127.0.0.1:8470", "http://127.0.0.1:8470", None),
        ("http://localhost", "http://localhost:8470", None),
        ("http://localhost:1/", "http://localhost:1", None),
        ("http://[::1]", "http://[::1]:8470", None),
        ("https://example.org/vivarium/", "https://example.org/vivarium", None),
        ("unix:/run/v.sock", "http://localhost", "/run/v.sock"),
        ("unix:///run/v.sock", "http://localhost", "/run/v.sock"),
    ],
)
def test_urls(url: str, base: str, socket: str) -> None:
    address = Address.of(url, "secret")
    assert (address.url, address.base, address.socket) == (url, base, socket)
    assert "secret" not in repr(address)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8470",
        "http://",
        "http://u:p@host",
        "ftp://host",
        "unix:",
        "unix:relative",
        "unix:/",
        "http://host?a=b",
        "http://host:99999",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        Client(url)


def test_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VIVARIUM_URL", raising=False)
    monkeypatch.delenv("VIVARIUM_TOKEN", raising=False)
    assert Address.of(None, None).base == "http://127.0.0.1:8470"
    assert "Authorization" not in Address.of(None, None).headers()
    monkeypatch.setenv("VIVARIUM_URL", "unix:/run/v.sock")
    monkeypatch.setenv("VIVARIUM_TOKEN", "from the environment")
    assert Address.of(None, None).socket == "/run/v.sock"
    assert Address.of(None, None).headers()["Authorization"] == "Bearer from the environment"
    assert Address.of("http://a", "given").headers()["Authorization"] == "Bearer given"


def test_proxies_of_the_environment_do_not_see_the_token(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Fake()
    try:
        proxy.answer = fake.answer = lambda seen: js(OUTCOME)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        # The positive control: httpx itself asks the proxy.
        httpx.get(fake.url)
        assert (len(proxy.seen), len(fake.seen)) == (1, 0)
        with Client(fake.url, "secret") as client:
            client.run("1")
        assert (len(proxy.seen), len(fake.seen)) == (1, 1)
        assert fake.seen[0].headers["Authorization"] == "Bearer secret"
    finally:
        proxy.close()


def test_what_is_not_given_is_not_sent(fake: Fake, client: Client) -> None:
    fake.answer = lambda seen: js(SESSION if seen.target == "/v1/sessions" else OUTCOME)
    client.run("1")
    session = client.session()
    session.execute("2")
    session.command(["ls"])
    assert [(seen.method, seen.target, seen.json()) for seen in fake.seen] == [
        ("POST", "/v1/run", {"code": "1"}),
        ("POST", "/v1/sessions", {}),
        ("POST", "/v1/sessions/demo/execute", {"code": "2"}),
        ("POST", "/v1/sessions/demo/commands", {"argv": ["ls"]}),
    ]
    keys = [seen.headers.get("Idempotency-Key") for seen in fake.seen]
    assert keys[1] is None
    assert len({*keys}) == 4


def test_a_checker_knows_what_the_api_does_not(fake: Fake, client: Client) -> None:
    fake.answer = lambda seen: js(OUTCOME)
    # mypy reports a needless `ignore`, so these are errors to it; the daemon refuses them itself.
    client.run("1", network="lan")  # type: ignore[arg-type]
    client.run("1", outputs=[{"name": "a", "format": "json"}])  # type: ignore[list-item]
    assert len(fake.seen) == 2


def test_everything_that_can_be_given(fake: Fake, client: Client, tmp_path: Path) -> None:
    fake.answer = lambda seen: js(SESSION if seen.target == "/v1/sessions" else OUTCOME)
    local = tmp_path / "local"
    local.write_bytes(b"\xff")
    client.run(
        shell="cat",
        stdin=b"\0",
        cwd="d",
        files={"a": "text é", "b": b"\0", "c": local, "d": io.BytesIO(b"d")},
        outputs=["a", {"name": "b", "format": "base64"}],
        limits={"max_memory_mb": 512, "max_procs": "unlimited"},
        network="none",
        timeout=0.0015,
        env={"A": "1"},
        environment="other",
        cancel_on_disconnect=True,
        idempotency_key="key",
    )
    encoded = {
        name: base64.b64encode(data).decode()
        for name, data in {"stdin": b"\0", "b": b"\0", "c": b"\xff", "d": b"d"}.items()
    }
    assert fake.seen[0].json() == {
        "shell": "cat",
        "stdin_base64": encoded["stdin"],
        "cwd": "d",
        "files": [
            {"name": "a", "text": "text é"},
            {"name": "b", "data": encoded["b"]},
            {"name": "c", "data": encoded["c"]},
            {"name": "d", "data": encoded["d"]},
        ],
        "outputs": [{"name": "a"}, {"name": "b", "format": "base64"}],
        "limits": {"max_memory_mb": 512, "max_procs": "unlimited"},
        "network": "none",
        "timeout_ms": 2,
        "env": {"A": "1"},
        "environment": "other",
        "cancel_on_disconnect": True,
    }
    assert fake.seen[0].headers["Idempotency-Key"] == "key"
    client.session("id", idle_timeout=60, metadata={"a": "b"}, env={}, network="none")
    assert fake.seen[1].json() == {
        "id": "id",
        "idle_timeout_ms": 60000,
        "metadata": {"a": "b"},
        "env": {},
        "network": "none",
    }
    client.attach("demo").execute("1", create=True)
    assert fake.seen[2].target == "/v1/sessions/demo/execute?create=true"
    client.attach("demo").command(shell="pwd", stdin="in", cwd="d")
    assert fake.seen[3].json() == {"shell": "pwd", "stdin": "in", "cwd": "d"}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda client: client.run(),
        lambda client: client.run("1", shell="ls"),
        lambda client: client.attach("s").command(),
        lambda client: client.attach("s").command("ls -l"),
        lambda client: client.run("1", outputs="a.txt"),
        lambda client: client.run("1", files={"a": 1}),
        lambda client: client.run("1", timeout=float("nan")),
        lambda client: client.run("1", timeout=float("inf")),
        lambda client: client.run("\ud800"),
        lambda client: client.attach("s").files.get(""),
        lambda client: client.attach("s").files.delete(""),
        lambda client: client.attach("s").files.get("a", offset=-1),
        lambda client: client.attach("s").files.get("a", length=0),
        lambda client: client.attach("s").files.put("a", 1),
        lambda client: client.attach("s").files.put("a", io.StringIO("text")),
    ],
)
def test_what_makes_no_sense_is_not_sent(
    fake: Fake, client: Client, wrong: Callable[[Any], object]
) -> None:
    with pytest.raises((TypeError, ValueError)):
        wrong(client)
    assert fake.seen == []


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("a/b.txt", "a/b.txt"),
        ("../x", "%2E%2E/x"),
        ("a/../../../host", "a/%2E%2E/%2E%2E/%2E%2E/host"),
        ("./x", "%2E/x"),
        ("..x/.y.", "..x/.y."),
        ("a b?c#d%2F", "a%20b%3Fc%23d%252F"),
        ("é", "%C3%A9"),
        ("/etc/passwd", "%2Fetc/passwd"),
        ("a\nb", "a%0Ab"),
    ],
)
def test_a_path_stays_within_its_route(fake: Fake, client: Client, name: str, target: str) -> None:
    fake.answer = lambda seen: problem(422, "invalid_path")
    with pytest.raises(errors.InvalidRequest):
        client.attach("demo").files.get(name)
    assert fake.seen[0].target == f"/v1/sessions/demo/files/{target}"


def test_httpx_resolves_dots_which_is_why_they_are_encoded(fake: Fake) -> None:
    httpx.get(f"{fake.url}/v1/sessions/demo/files/../x", trust_env=False)
    assert fake.seen[0].target == "/v1/sessions/demo/x"


@pytest.mark.parametrize("id", ["..", ".", "a/b", "a?b", "é", "%2e%2e"])
def test_an_id_is_one_segment(fake: Fake, client: Client, id: str) -> None:
    with pytest.raises(errors.NotFound):
        client.attach(id).info()
    [seen] = fake.seen
    assert seen.target.count("/") == 3
    assert seen.target not in ("/v1/sessions/..", "/v1/sessions/.")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "malformed_json", errors.InvalidRequest),
        (401, "unauthenticated", errors.Unauthenticated),
        (403, "host_not_allowed", errors.Forbidden),
        (404, "unknown_session", errors.NotFound),
        (405, "method_not_allowed", errors.InvalidRequest),
        (409, "session_exists", errors.Conflict),
        (410, "events_gone", errors.EventsGone),
        (413, "body_too_large", errors.InvalidRequest),
        (416, "range", errors.InvalidRequest),
        (418, "teapot", errors.ApiError),
        (422, "invalid_field", errors.InvalidRequest),
        (429, "queue_full", errors.QuotaExceeded),
        (500, "internal", errors.ServerError),
        (503, "draining", errors.Draining),
        (503, "no_capacity", errors.Unavailable),
    ],
)
def test_refusals_are_exceptions(
    fake: Fake, status: int, code: str, kind: type[errors.ApiError]
) -> None:
    fake.answer = lambda seen: problem(status, code, **{"Retry-After": "7"})
    with Client(fake.url, max_retries=0) as client, pytest.raises(errors.ApiError) as raised:
        client.host()
    error = raised.value
    assert type(error) is kind
    assert (error.status, error.code, error.detail) == (status, code, f"because of {code}")
    assert error.retry_after == 7
    assert error.problem["type"] == f"urn:vivarium:problem:{code}"
    assert str(error) == f"because of {code} ({status} {code})"


def test_the_field_and_the_fix_are_named(fake: Fake, client: Client) -> None:
    fields = {"code": "invalid_field", "detail": "no", "field": "limits.max_procs", "fix": "less"}
    fake.answer = lambda seen: js(fields, 422)
    with pytest.raises(errors.InvalidRequest) as raised:
        client.run("1")
    assert (raised.value.field, raised.value.fix) == ("limits.max_procs", "less")


def test_what_is_not_the_daemon_is_told(fake: Fake, client: Client) -> None:
    for status, body, kind in (
        (502, b"<h1>Bad Gateway</h1>", errors.ServerError),
        (404, b"", errors.NotFound),
        (302, b"elsewhere", errors.ApiError),
        (200, b"<h1>hello</h1>", errors.UnexpectedAnswer),
        (200, b"[]", errors.UnexpectedAnswer),
        (200, b"", errors.UnexpectedAnswer),
    ):
        fake.answers(Reply(status, body, {"Content-Type": "text/html"}))
        with pytest.raises(kind):
            client.host()


def test_sessions_are_deleted_at_the_end_and_only_ones_own(fake: Fake, client: Client) -> None:
    def answer(seen: Seen) -> Any:
        return Reply(204, b"") if seen.method == "DELETE" else js(SESSION)

    fake.answer = answer
    with client.session():
        pass
    assert [seen.method for seen in fake.seen] == ["POST", "DELETE"]
    with client.attach("other"):
        pass
    assert len(fake.seen) == 2


def test_the_first_error_is_the_one_that_is_seen(fake: Fake, client: Client) -> None:
    fake.answers(js(SESSION), problem(500, "internal"), js(SESSION), problem(500, "internal"))
    with pytest.raises(KeyError), client.session():
        raise KeyError
    with pytest.raises(errors.ServerError), client.session():
        pass


def test_deleting_says_whether_it_was_there(fake: Fake, client: Client) -> None:
    fake.answers(Reply(204, b""), problem(404, "unknown_session"))
    assert client.attach("demo").delete()
    assert not client.attach("demo").delete()


def test_lists_are_followed_page_by_page(fake: Fake, client: Client) -> None:
    fake.answers(
        js({"sessions": [SESSION, {**SESSION, "id": "e"}], "next": "e f"}),
        js({"sessions": [{**SESSION, "id": "g"}], "next": None}),
    )
    assert [info.id for info in client.sessions()] == ["demo", "e", "g"]
    assert [seen.target for seen in fake.seen] == ["/v1/sessions", "/v1/sessions?after=e+f"]


def test_the_small_calls(fake: Fake, client: Client) -> None:
    session = client.attach("demo")
    fake.answers(
        js({"session_id": "demo", "execution_id": "3", "interrupted": True, "detail": "ended"}),
        js({"context": "main", "ended_execution_id": "4", "scope": "session"}),
        js({"session_id": "demo", "expires_at": "2026-01-01T00:00:00Z"}),
        js({"url": "https://preview", "expires_at": "2026-01-01T00:00:00Z"}),
        js({"matches": [{"text": "print", "type": "function"}], "start": 0, "end": 2}),
        js({"found": True, "name": "print", "type": "builtin", "signature": "(*args)"}),
        js({"status": "incomplete", "indent": "  "}),
        js({"state": "running", "outcome": None}),
        js({"state": "done", "outcome": OUTCOME}),
    )
    assert session.interrupt().execution_id == "3"
    assert session.reset() == Reset("main", "4", "session")
    assert session.keepalive().year == 2026
    preview = session.preview(8000)
    assert (preview.url, preview.expires_at.year) == ("https://preview", 2026)
    completions = session.complete("pr", 2)
    assert (completions.matches[0].text, completions.start, completions.end) == ("print", 0, 2)
    assert session.inspect("print").signature == "(*args)"
    assert session.is_complete("if x:") == Completeness("incomplete", "  ")
    assert not session.execution("5").done
    kept = session.execution("5").outcome
    assert kept is not None
    assert kept.text == "hello\n"
    assert [seen.target.removeprefix("/v1/sessions/demo/") for seen in fake.seen] == [
        "interrupt",
        "reset",
        "keepalive",
        "previews",
        "complete",
        "inspect",
        "is_complete",
        "executions/5",
        "executions/5",
    ]
    assert fake.seen[3].json() == {"port": 8000}
    assert fake.seen[4].json() == {"code": "pr", "cursor": 2}
    assert fake.seen[5].json() == {"code": "print"}
    assert fake.seen[6].json() == {"code": "if x:"}


def test_redirections_are_not_followed(fake: Fake, client: Client) -> None:
    other = Fake()
    try:
        fake.answers(Reply(307, b"", {"Location": f"{other.url}/v1/host"}))
        with pytest.raises(errors.ApiError) as raised:
            client.host()
        assert (raised.value.status, other.seen) == (307, [])
    finally:
        other.close()


def test_certificates_are_checked() -> None:
    assert _httpx.verify(Address.of("https://example.org", None))
    assert not _httpx.verify(Address.of("http://localhost", None))
    assert not _httpx.verify(Address.of("unix:/run/v.sock", None))


def test_over_a_unix_socket(tmp_path: Path) -> None:
    with Client(f"unix:{tmp_path}/none.sock", max_retries=0) as client:
        with pytest.raises(errors.TransportError, match=r"none\.sock") as raised:
            client.host()
        assert not raised.value.reached
