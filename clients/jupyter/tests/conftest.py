from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon import Daemon
from notebook import Notebook, install


@pytest.fixture(scope="session", autouse=True)
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The prefix that kernelspecs are installed below. Nothing of the user's own is used."""
    root = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(root / name))
        patch.setenv("JUPYTER_PATH", str(root / "share" / "jupyter"))
        # They decide where and as whom it runs.
        patch.delenv("VIVARIUM_URL", raising=False)
        patch.delenv("VIVARIUM_TOKEN", raising=False)
        yield root


@pytest.fixture(scope="session")
def daemon() -> Iterator[Daemon]:
    running = Daemon()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def vivarium(kernels: Path, daemon: Daemon) -> str:
    """The name of a kernelspec for the daemon."""
    return install(kernels, "vivarium", "--url", daemon.url)


@pytest.fixture
def notebook(vivarium: str) -> Iterator[Notebook]:
    with Notebook(vivarium) as notebook:
        yield notebook
