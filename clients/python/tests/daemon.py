"""A `vivarium serve` of the tests' own, and a relay to it whose connections can be cut."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import NoReturn, Optional

import pytest

BINARY = "VIVARIUM_BIN"

INTERPRETER = "/usr/bin/python3"


class Daemon:
    """A daemon on a Unix socket in a directory that its user can reach."""

    def __init__(self, more: str = "") -> None:
        binary = os.environ.get(BINARY)
        if binary is None:
            lacks("vivarium", f"the path of a built `vivarium` in {BINARY}")
        # A socket's path has at most 107 bytes.
        self._directory = tempfile.TemporaryDirectory(prefix="vc")
        root = Path(self._directory.name)
        # Started as root, the daemon becomes another user.
        root.chmod(0o755)
        self.socket = root / "api.sock"
        self.url = f"unix:{self.socket}"
        self._log = root / "log"
        config = root / "vivarium.toml"
        config.write_text(
            f'[server]\nlisten = ["unix:{self.socket}"]\n'
            f'state_dir = "{root}/state"\nruntime_dir = "{root}/run"\n'
            f'[environments.default]\ninterpreter = "{INTERPRETER}"\n{more}'
        )
        config.chmod(0o644)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            notify = root / "notify"
            manager.bind(str(notify))
            notify.chmod(0o777)
            with open(self._log, "wb") as log:
                self._process = subprocess.Popen(
                    [binary, "serve", "--config", str(config)],
                    env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": str(notify)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                )
            self._await_ready(manager)

    def _await_ready(self, manager: socket.socket) -> None:
        """sd_notify(3)."""
        manager.settimeout(0.2)
        while True:
            try:
                if b"READY=1" in manager.recv(4096):
                    return
            except TimeoutError:
                if self._process.poll() is not None:
                    raise RuntimeError(f"the daemon did not start:\n{self.log()}") from None

    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text(errors="replace")

    def stop(self) -> None:
        """Stops it as a service manager does."""
        self._process.terminate()
        status = self._process.wait()
        log = self.log()
        self._directory.cleanup()
        assert status == 0, log


class Relay:
    """Passes connections on to a daemon, from TCP. Each but the last of `cuts` ends after so many
    bytes of answers; None is not cut."""

    def __init__(self, daemon: Daemon, *cuts: Optional[int]) -> None:
        self._daemon = daemon
        self._cuts = list(cuts)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        """Ends it."""
        # Wakes accept(2).
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _accept(self) -> None:
        workers = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            cut = self._cuts[self.connections] if self.connections < len(self._cuts) else None
            self.connections += 1
            worker = threading.Thread(target=self._relay, args=(client, cut))
            worker.start()
            workers.append(worker)
        for worker in workers:
            worker.join()

    def _relay(self, client: socket.socket, cut: Optional[int]) -> None:
        with client, socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(str(self._daemon.socket))
            up = threading.Thread(target=_pump, args=(client, daemon, None))
            up.start()
            _pump(daemon, client, cut)
            up.join()


def _pump(source: socket.socket, target: socket.socket, limit: Optional[int]) -> None:
    """Copies until the end, or so many bytes; then ends both."""
    passed = 0
    with contextlib.suppress(OSError):
        while chunk := source.recv(65536):
            if limit is not None and passed + len(chunk) >= limit:
                target.sendall(chunk[: limit - passed])
                break
            target.sendall(chunk)
            passed += len(chunk)
    for side in (source, target):
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)


def requires_modules(*names: str) -> None:
    """Needs modules in the daemon's interpreter."""
    program = f"import {', '.join(names)}"
    if subprocess.run([INTERPRETER, "-c", program], check=False, capture_output=True).returncode:
        lacks("python-science", f"{', '.join(names)} for {INTERPRETER}")


def lacks(requirement: str, what: str) -> NoReturn:
    """Skips the test and says so; fails it where `VIVARIUM_TEST_REQUIRE` says that what is
    missing has to be there."""
    if requirement in os.environ.get("VIVARIUM_TEST_REQUIRE", "").split(","):
        pytest.fail(f"{requirement} is required, and missing: {what}")
    pytest.skip(f"host requirement {requirement}: {what}")
