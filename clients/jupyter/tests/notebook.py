"""A frontend: it starts a kernel from its kernelspec, and reads all that it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Optional

from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_kernel_test.msgspec_v5 import schema_fragments, validate_message

from vivarium_jupyter.__main__ import main

TIMEOUT_SECS = 60

Message = dict[str, Any]


def install(prefix: Path, name: str, *options: str) -> str:
    """Installs a kernelspec with the command, and returns its name."""
    main(["install", "--prefix", str(prefix), "--name", name, *options])
    return name


class Notebook:
    """One kernel and one client of it."""

    def __init__(self, kernel_name: str, **env: str) -> None:
        self.manager: KernelManager
        self.manager, self.client = start_new_kernel(
            kernel_name=kernel_name, env={**os.environ, **env}
        )
        # After half of it, the process would be killed.
        self.manager.shutdown_wait_time = 2 * TIMEOUT_SECS

    def __enter__(self) -> Notebook:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel()

    @property
    def pid(self) -> int:
        provisioner: Any = self.manager.provisioner
        return int(provisioner.pid)

    def send(self, code: str, **options: Any) -> str:
        """Asks to execute, and returns the id of the request."""
        return str(self.client.execute(code, **options))

    def reply(self, id: str) -> Message:
        """Waits for the reply to a request, and returns its content."""
        while True:
            message = self.client.get_shell_msg(timeout=TIMEOUT_SECS)
            _validate(message)
            if message["parent_header"]["msg_id"] == id:
                content: Message = message["content"]
                return content

    def published(
        self, id: str, until: Optional[Callable[[Message], bool]] = None
    ) -> list[tuple[str, Message]]:
        """Returns types and contents of what a request published, until it is idle or `until`."""
        found = []
        while True:
            message = self.client.get_iopub_msg(timeout=TIMEOUT_SECS)
            _validate(message)
            if message["parent_header"].get("msg_id") != id:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind != "status":
                found.append((kind, content))
            if content.get("execution_state") == "idle" or (until is not None and until(content)):
                return found

    def run(self, code: str, **options: Any) -> tuple[Message, list[tuple[str, Message]]]:
        """Executes, and returns the reply and what was published."""
        id = self.send(code, **options)
        return self.reply(id), self.published(id)

    def value(self, code: str) -> str:
        """Returns the text of the value of code."""
        reply, published = self.run(code)
        assert reply["status"] == "ok", reply
        results = [content for kind, content in published if kind == "execute_result"]
        return str(results[0]["data"]["text/plain"])


def _validate(message: Message) -> None:
    """The schemas know neither all messages nor what ipykernel says of aborted requests."""
    if message["msg_type"] in schema_fragments and message["content"].get("status") != "aborted":
        validate_message(message)
