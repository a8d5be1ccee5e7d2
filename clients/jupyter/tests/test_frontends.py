"""Programs that start kernels from kernelspecs, as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from vivarium_client import Client

from daemon import Daemon

TIMEOUT_SECS = 60


def program(name: str) -> str:
    """Returns the path of a program beside this Python."""
    return str(Path(sys.executable).with_name(name))


def notebook(*cells: str) -> nbformat.NotebookNode:
    code = [nbformat.v4.new_code_cell(code) for code in cells]
    made: nbformat.NotebookNode = nbformat.v4.new_notebook(cells=code)
    made.metadata.kernelspec = {"name": "vivarium", "display_name": "V", "language": "python"}
    return made


@pytest.mark.usefixtures("vivarium")
def test_nbclient_runs_a_notebook_by_its_kernelspec(daemon: Daemon) -> None:
    cells = ("x = 6", "print('out')\nx * 7", "from IPython.display import HTML; HTML('<b>b</b>')")
    with Client(daemon.url) as client:
        before = [info.id for info in client.sessions()]
        made = NotebookClient(notebook(*cells), timeout=TIMEOUT_SECS).execute()
        assert [info.id for info in client.sessions()] == before
    nbformat.validate(made)
    outputs = made.cells[1].outputs
    assert [output.output_type for output in outputs] == ["stream", "execute_result"]
    assert outputs[1].data == {"text/plain": "42"}
    assert made.cells[2].outputs[0].data["text/html"] == "<b>b</b>"
    assert [cell.execution_count for cell in made.cells] == [1, 2, 3]


@pytest.mark.usefixtures("vivarium")
@pytest.mark.parametrize(
    ("code", "name"),
    [("1 / 0", "ZeroDivisionError"), ("import os; os.kill(os.getpid(), 9)", "signal")],
)
def test_nbclient_says_which_cell_failed(code: str, name: str) -> None:
    with pytest.raises(CellExecutionError, match=name):
        NotebookClient(notebook("1", code), timeout=TIMEOUT_SECS).execute()


@pytest.mark.usefixtures("vivarium")
def test_jupyter_execute_runs_a_notebook(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    nbformat.write(notebook("import os; os.environ.get('HOME')", "6 * 7"), path)
    command = [program("jupyter-execute"), "--inplace", str(path)]
    subprocess.run(command, check=True, timeout=TIMEOUT_SECS, capture_output=True)
    made = nbformat.read(path, as_version=4)
    assert made.cells[1].outputs[0].data == {"text/plain": "42"}


@pytest.mark.usefixtures("vivarium")
def test_jupyter_console_runs_what_is_typed() -> None:
    # With any kernel, this program waits for ever if its first cell ends before it has subscribed
    # to what the kernel publishes, and nothing tells when it has.
    first = "import time; time.sleep(2)"
    command = [program("jupyter-console"), "--simple-prompt", "--kernel", "vivarium"]
    done = subprocess.run(
        command,
        input=f"{first}\nx = 6\nprint(x * 7)\nx + 1\n1 / 0\n",
        check=True,
        timeout=TIMEOUT_SECS,
        capture_output=True,
        text=True,
    )
    assert "42\n" in done.stdout
    assert "Out[4]: 7" in done.stdout
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "Python in Vivarium" in done.stdout
