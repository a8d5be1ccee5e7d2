"""The tests that Jupyter has for kernels, which look at each message."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import jupyter_kernel_test
import pytest

from notebook import TIMEOUT_SECS


@pytest.mark.usefixtures("vivarium")
class TestProtocol(jupyter_kernel_test.KernelTests):  # type: ignore[misc]
    kernel_name = "vivarium"
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples = ["1", "print('hello')", "def f(x):\n  return x*2\n\n\n"]
    incomplete_code_samples = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples = ["import = 7q", "1 +* 2"]
    code_generate_error = "raise ValueError('wrong')"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
        {"code": "from IPython.display import HTML; HTML('<i>x</i>')", "mime": "text/html"},
    ]
    code_display_data = [
        {"code": "from IPython.display import HTML, display; display(HTML('x'))", "mime": mime}
        for mime in ("text/html", "text/plain")
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"

    # A session prints help. The payload for it is one of IPython's terminal.
    test_pager = None

    # These wait for what has to come, where the originals wait for 0.1 s.

    def flush_channels(self) -> None:
        id = self.kc.kernel_info()
        while self.kc.get_shell_msg(timeout=TIMEOUT_SECS)["parent_header"]["msg_id"] != id:
            pass
        while True:
            message = self.kc.get_iopub_msg(timeout=TIMEOUT_SECS)
            is_idle = message["content"].get("execution_state") == "idle"
            if is_idle and message["parent_header"].get("msg_id") == id:
                return

    def execute_helper(self, *args: Any, **options: Any) -> Any:
        channel = self.kc.iopub_channel
        wait = partial(channel.get_msg, TIMEOUT_SECS)
        with mock.patch.object(channel, "get_msg", side_effect=lambda timeout: wait()):
            return super().execute_helper(*args, **options)
