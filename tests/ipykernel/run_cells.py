"""Runs each cell that it is given in an ipykernel of its own, and prints what came of it as JSON.

Usage: run_cells.py KERNEL_PYTHON FILE... PYTHONPATH leads to ipykernel.
"""

import functools
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
from concurrent import futures

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

# Of one cell: imports are slow on a busy machine.
SECONDS = 300


def start(python, directory, sockets):
    # Not TCP: another kernel or process may take a port between its choice and its use.
    manager = KernelManager(transport="ipc", connection_file=os.path.join(sockets, "kernel.json"))
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager._kernel_spec = KernelSpec(argv=argv)
    manager.start_kernel(cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=SECONDS)
    return manager, client


def run(client, code):
    """What one cell prints and shows, in the terms of an execution's outcome."""
    outcome = {"stdout": "", "stderr": "", "shown": [], "result": None, "exception": None}
    request = client.execute(code, store_history=True, allow_stdin=False)
    while True:
        try:
            message = client.get_iopub_msg(timeout=SECONDS)
        except queue.Empty:
            raise SystemExit("a cell takes too long:\n" + code) from None
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            outcome[content["name"]] += content["text"]
        elif kind == "display_data":
            outcome["shown"].append(sorted(content["data"]))
        elif kind == "execute_result":
            outcome["result"] = {
                "repr": content["data"].get("text/plain"),
                "mime": sorted(content["data"]),
            }
        elif kind == "error":
            outcome["exception"] = content["ename"]
        elif kind == "status" and content["execution_state"] == "idle":
            return outcome


def outcome_of(python, file):
    temporary = tempfile.TemporaryDirectory
    with temporary() as directory, temporary() as sockets:
        manager, client = start(python, directory, sockets)
        try:
            return run(client, file.read_text())
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def main():
    python, *names = sys.argv[1:]
    files = [pathlib.Path(name) for name in names]
    with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(functools.partial(outcome_of, python), files)
        json.dump({file.stem: outcome for file, outcome in zip(files, outcomes)}, sys.stdout)


main()
