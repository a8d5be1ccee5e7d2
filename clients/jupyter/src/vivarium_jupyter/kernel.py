"""The kernel: requests of Jupyter's protocol become calls of a session.

Shell requests are answered one after the other in the main thread, where code is followed until it
ends. Interrupts and shutdowns come in another, on the control channel, and end it at the daemon.
"""

from __future__ import annotations

import hashlib
import signal
import threading
from collections import deque
from fnmatch import fnmatchcase
from typing import Any, Optional

from ipykernel.kernelbase import Kernel
from vivarium_client import Client, Conflict, Done, ErrorEvent, NotFound, Result, Session
from vivarium_client.errors import VivariumError

from . import messages
from ._version import __version__
from .messages import Content

_MAX_INPUTS = 1000

# A URL that is none is a ValueError.
_ERRORS = (VivariumError, ValueError)


class VivariumKernel(Kernel):
    """A session of Vivarium as a Jupyter kernel."""

    implementation = "vivarium"
    implementation_version = __version__
    banner = f"Python in Vivarium {__version__}"
    # The session's version of Python is known only when there is one.
    language_info: dict[str, object] = {
        "name": "python",
        "version": "3",
        "mimetype": "text/x-python",
        "file_extension": ".py",
        "pygments_lexer": "ipython3",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "nbconvert_exporter": "python",
    }
    msg_types: list[str] = [*Kernel.msg_types, "comm_open", "comm_msg", "comm_close"]
    session: Any
    """Jupyter's: it signs and sends messages."""
    environment: Optional[str] = None
    """The environment of the daemon that code runs in."""

    def __init__(self, **traits: Any) -> None:
        super().__init__(**traits)
        self._client: Optional[Client] = None
        self._remote: Optional[Session] = None
        self._timeout: Optional[float] = None
        self._opening = threading.Lock()
        self._is_over = False
        self._count = 1
        self._inputs: deque[tuple[int, str]] = deque(maxlen=_MAX_INPUTS)

    def start(self) -> None:
        """Begins to answer."""
        super().start()

        def interrupt(*_: object) -> None:
            threading.Thread(target=self._interrupt, daemon=True).start()

        signal.signal(signal.SIGINT, interrupt)

    def pre_handler_hook(self) -> None:
        """Leaves SIGINT as it is: it interrupts the session, not this process."""

    def post_handler_hook(self) -> None:
        """Leaves SIGINT as it is."""

    @property
    def kernel_info(self) -> Content:
        """Without the features that ipykernel has: the debugger, and subshells."""
        return {**super().kernel_info, "supported_features": []}

    @property
    def execution_count(self) -> int:
        """The number of the execution that runs or comes next."""
        return self._count

    @execution_count.setter
    def execution_count(self, value: int) -> None:
        """Ignores what the base class counts, which does not know `store_history`."""

    def _open(self) -> Session:
        """Returns the session, and creates it if there is none.

        Its id belongs to the connection, as ports and key do: a process that replaces another finds
        the session of that one, with its files, and resets it.
        """
        with self._opening:
            if self._remote is not None:
                return self._remote
            if self._is_over:
                raise VivariumError("the kernel is shut down")
            self._client = client = self._client or Client()
            key: bytes = self.session.key
            # Where messages are not signed, kernels cannot be told apart by it.
            id = f"jupyter-{hashlib.sha256(key).hexdigest()[:32]}" if key else None
            try:
                remote = client.session(
                    id, environment=self.environment, metadata={"client": "vivarium-jupyter"}
                )
            except Conflict as error:
                if id is None or error.code != "session_exists":
                    raise
                remote = client.attach(id)
                remote.reset()
            policy = {entry.key: entry.value for entry in remote.info().policy}
            longest = policy.get("session.max_exec_timeout")
            self._timeout = messages.seconds(longest) if isinstance(longest, str) else None
            self._remote = remote
            return remote

    def _publish(self, kind: str, content: Content) -> None:
        self.send_response(self.iopub_socket, kind, content)

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: Optional[dict[str, str]] = None,
        allow_stdin: bool = False,
        **_: Any,
    ) -> Content:
        """Runs code in the session, and publishes what happens as it happens."""
        count = self._count
        if store_history and not silent:
            self._inputs.append((count, code))
            self._count += 1
        try:
            failure = self._follow(code, count, silent)
        except _ERRORS as error:
            failure = messages.refusal(error)
            self._publish("error", failure)
            if isinstance(error, NotFound) and error.code == "unknown_session":
                self._remote, self._count = None, 1
        if failure is not None:
            return {"status": "error", "execution_count": count, **failure}
        unsupported = messages.failure("NotSupported", "user_expressions are not evaluated here")
        return {
            "status": "ok",
            "execution_count": count,
            "payload": [],
            "user_expressions": {
                name: {"status": "error", **unsupported} for name in user_expressions or ()
            },
        }

    def _follow(self, code: str, count: int, silent: bool) -> Optional[Content]:
        """Returns the error, if there is one."""
        failure = None
        with self._open().stream(code, timeout=self._timeout) as stream:
            for event in stream:
                message = messages.message(event, count)
                if message is not None and not (silent and isinstance(event, Result)):
                    self._publish(*message)
                    failure = message[1] if isinstance(event, ErrorEvent) else failure
                if not isinstance(event, Done):
                    continue
                if not event.outcome.ok and failure is None:
                    failure = messages.ended(event.outcome)
                    self._publish("error", failure)
                if event.outcome.state == "lost":
                    self._count = 1
        return failure

    async def do_complete(self, code: str, cursor_pos: int) -> Content:
        """Completes at the cursor."""
        try:
            found = self._open().complete(code, cursor_pos)
        except _ERRORS as error:
            return {"status": "error", **messages.refusal(error)}
        span = {"start": found.start, "end": found.end}
        types = [{"text": match.text, "type": match.type, **span} for match in found.matches]
        return {
            "status": "ok",
            "matches": [match.text for match in found.matches],
            "cursor_start": found.start,
            "cursor_end": found.end,
            "metadata": {"_jupyter_types_experimental": types},
        }

    async def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> Content:
        """Describes the name at the cursor."""
        try:
            found = self._open().inspect(code, cursor_pos)
        except _ERRORS as error:
            return {"status": "error", **messages.refusal(error)}
        text = messages.described(found, with_source=detail_level > 0)
        data = {"text/plain": text} if found.found else {}
        return {"status": "ok", "found": found.found, "data": data, "metadata": {}}

    async def do_is_complete(self, code: str) -> Content:
        """Tells whether code needs another line."""
        try:
            told = self._open().is_complete(code)
        except _ERRORS:
            return {"status": "unknown"}
        indent = {"indent": told.indent} if told.status == "incomplete" else {}
        return {"status": told.status, **indent}

    async def do_history(  # type: ignore[override]  # the base class passes names
        self, hist_access_type: str, output: bool, **asked: Any
    ) -> Content:
        """Returns the last inputs of this process; their outputs are not kept."""
        found = list(self._inputs)
        if hist_access_type == "range":
            start, stop = asked.get("start") or 0, asked.get("stop") or self._count
            found = [one for one in found if start <= one[0] < stop]
        elif hist_access_type == "search":
            found = [one for one in found if fnmatchcase(one[1], asked.get("pattern") or "*")]
            if asked.get("unique"):
                found = sorted({code: (count, code) for count, code in found}.values())
        found = found[-asked["n"] :] if asked.get("n") else found
        return {
            "status": "ok",
            "history": [(0, count, (code, None) if output else code) for count, code in found],
        }

    async def interrupt_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Interrupts the code that the session runs."""
        self.session.send(stream, "interrupt_reply", self._interrupt(), parent, ident=ident)

    def _interrupt(self) -> Content:
        remote = self._remote
        try:
            if remote is not None:
                remote.interrupt()
        except VivariumError as error:
            return {"status": "error", **messages.refusal(error)}
        return {"status": "ok"}

    async def do_shutdown(self, restart: bool) -> Content:
        """Ends the session; before a restart, only its kernel: files stay for the next process."""
        with self._opening:
            # What still waits would open another session.
            self._is_over = True
            remote = self._remote
        try:
            if remote is not None and restart:
                remote.reset()
            elif remote is not None:
                remote.delete()
        except VivariumError as error:
            self.log.warning("the session was not ended: %s", error)
        return {"status": "ok", "restart": restart}

    async def comm_open(self, stream: Any, ident: Any, parent: Any) -> None:
        """Closes a comm at once: there is no way to code in the session for them."""
        content = {"comm_id": parent["content"].get("comm_id"), "data": {}}
        self.session.send(self.iopub_socket, "comm_close", content, parent)

    async def comm_msg(self, stream: Any, ident: Any, parent: Any) -> None:
        """Ignores it: every comm is closed."""

    comm_close = comm_msg
