"""The command, and what it writes."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import pytest

from vivarium_jupyter.__main__ import main


def test_a_kernelspec_says_how_to_start_and_interrupt_the_kernel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--environment", "science", "--url", "http://127.0.0.1:9000"]
    main(["install", "--prefix", str(tmp_path), "--name", "v2", "--display-name", "V", *options])
    directory = tmp_path / "share/jupyter/kernels/v2"
    assert capsys.readouterr().out == f"installed v2 in {directory}\n"
    assert json.loads((directory / "kernel.json").read_text()) == {
        "argv": [
            *(sys.executable, "-m", "vivarium_jupyter", "launch", "-f", "{connection_file}"),
            *("--environment", "science"),
        ],
        "display_name": "V",
        "language": "python",
        "interrupt_mode": "message",
        "env": {"VIVARIUM_URL": "http://127.0.0.1:9000"},
        "metadata": {"debugger": False},
    }
    for path in (directory, directory / "kernel.json"):
        assert path.stat().st_mode & stat.S_IROTH


def test_no_token_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIVARIUM_TOKEN", "secret-of-the-environment")
    monkeypatch.setenv("VIVARIUM_URL", "http://127.0.0.1:9001")
    main(["install", "--prefix", str(tmp_path)])
    text = (tmp_path / "share/jupyter/kernels/vivarium/kernel.json").read_text()
    assert "secret" not in text
    assert "9001" not in text
    assert json.loads(text)["env"] == {}
    assert json.loads(text)["display_name"] == "Python (Vivarium)"


@pytest.mark.parametrize("url", ["http://user:secret@127.0.0.1", "http://h/?token=secret", "h"])
def test_a_url_with_credentials_or_without_host_is_refused(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["install", "--prefix", str(tmp_path), "--url", url])
    assert exited.value.code == 1
    assert "no daemon's URL" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_it_installs_for_the_user_or_into_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "user"))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "env"))
    main(["install"])
    main(["install", "--user", "--name", "same"])
    main(["install", "--sys-prefix", "--name", "other"])
    assert {path.name for path in (tmp_path / "user/kernels").iterdir()} == {"vivarium", "same"}
    assert (tmp_path / "env/share/jupyter/kernels/other/kernel.json").exists()


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["install", "--name", "no name"])
    assert exited.value.code == 1
    assert "no name" in capsys.readouterr().err
