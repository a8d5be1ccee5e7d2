"""README and examples do what they say, against a real daemon."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vivarium_client
from daemon import Daemon, requires_modules

ROOT = Path(__file__).resolve().parent.parent

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

EXPECTED = [
    "2 rows\n\n7\nerror ExceptionInfo(type='IndexError', message='list index out of range')\n",
    "42\n",
    "0\n1\n2\nok\n",
    "['Ada Lovelace'] ['Ada Lovelace']\n\nvivarium.ToolRefused\n",
    "(('2',),)\nvivarium.ImportNotAllowed\n",
    "hello\n\nok 0\nsignal\n",
    "1 2\n3\ncontext\n1 error\n['main', 'plots']\nmain_context\n",
    "HELLO\n",
    "404 unknown_session\n",
    "['0', '1', '4', '9']\nhello\n",
]


def python(daemon: Daemon, directory: Path, *arguments: str) -> str:
    source = Path(vivarium_client.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        check=False,
        cwd=directory,
        env={**os.environ, "VIVARIUM_URL": daemon.url, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_block_has_its_expectation() -> None:
    assert len(BLOCKS) == len(EXPECTED)
    assert len(BLOCKS[0].strip().splitlines()) <= 11


@pytest.mark.parametrize("number", range(len(EXPECTED)))
def test_the_readme(daemon: Daemon, tmp_path: Path, number: int) -> None:
    assert EXPECTED[number] in python(daemon, tmp_path, "-c", BLOCKS[number])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tool", ["3.875\n", "[error: NameError]", "[all variables are lost]"]),
        ("many", ["499999500000", "ZeroDivisionError", "timed_out", "Error"]),
        ("progress", ["finished", "ok"]),
        ("plot", ["plot-1.png"]),
    ],
)
def test_the_examples(daemon: Daemon, tmp_path: Path, name: str, expected: list[str]) -> None:
    if name == "plot":
        requires_modules("matplotlib")
    output = python(daemon, tmp_path, str(ROOT / "examples" / f"{name}.py"))
    for part in expected:
        assert part in output


def test_every_example_is_run() -> None:
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert names == {"tool", "many", "progress", "plot"}
