"""Runs notebooks on a gateway with the packages that people use, given its URL and a token."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import uuid

url, token = sys.argv[1:]
# The socket of these clients has no credentials: the token stands in the path. They would write
# its URL in lower case by themselves, the token with it.
os.environ["JUPYTER_GATEWAY_URL"] = f"{url}/t/{token}"
os.environ["JUPYTER_GATEWAY_WS_URL"] = f"{url}/t/{token}".replace("http", "ws", 1)
os.environ["JUPYTER_PLATFORM_DIRS"] = "1"

import aiohttp
import nbformat
import papermill
from autogen_core import CancellationToken
from autogen_core.code_executor import CodeBlock
from autogen_ext.code_executors.docker_jupyter._docker_jupyter import DockerJupyterCodeExecutor
from autogen_ext.code_executors.docker_jupyter._jupyter_server import JupyterConnectionInfo
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

GatewayClient.instance(url=os.environ["JUPYTER_GATEWAY_URL"])


def notebook(*cells):
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(code) for code in cells]
    made.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "Python 3"}
    return made


def nbclient_runs():
    made = notebook("print('hi')\nx = 41", "x + 1", "display({'a': 1})")
    manager = {"kernel_manager_class": GatewayKernelManager, "kernel_name": "python3"}
    NotebookClient(made, timeout=60, **manager).execute()
    assert made.cells[0].outputs[0].text == "hi\n", made
    assert made.cells[1].outputs[0].data["text/plain"] == "42", made
    assert made.cells[1].execution_count == 2, made
    failing = notebook("1 / 0")
    try:
        NotebookClient(failing, kernel_manager_class=GatewayKernelManager, timeout=60).execute()
    except CellExecutionError as error:
        assert error.ename == "ZeroDivisionError", error
    else:
        raise AssertionError("nothing failed")


def papermill_runs():
    with tempfile.TemporaryDirectory() as place:
        made = notebook("a = 1", "print(a)")
        made.cells[0].metadata.tags = ["parameters"]
        source, target = os.path.join(place, "in.ipynb"), os.path.join(place, "out.ipynb")
        nbformat.write(made, source)
        papermill.execute_notebook(
            source,
            target,
            parameters={"a": 7},
            progress_bar=False,
            kernel_manager_class="jupyter_server.gateway.managers.GatewayKernelManager",
        )
        ran = nbformat.read(target, 4)
        assert ran.cells[-1].outputs[0].text == "7\n", ran


def nbconvert_runs():
    with tempfile.TemporaryDirectory() as place:
        source = os.path.join(place, "in.ipynb")
        nbformat.write(notebook("print(6 * 7)"), source)
        manager = "jupyter_server.gateway.managers.GatewayKernelManager"
        subprocess.run(
            [
                sys.executable,
                "-m",
                "nbconvert",
                "--execute",
                "--to",
                "notebook",
                "--output",
                "out.ipynb",
                f"--ExecutePreprocessor.kernel_manager_class={manager}",
                source,
            ],
            check=True,
        )
        ran = nbformat.read(os.path.join(place, "out.ipynb"), 4)
        assert ran.cells[0].outputs[0].text == "42\n", ran


async def autogen_runs():
    host = url.removeprefix("http://")
    server = JupyterConnectionInfo(host=host, use_https=False, port=None, token=token)
    with tempfile.TemporaryDirectory() as place:
        async with DockerJupyterCodeExecutor(jupyter_server=server, output_dir=place) as executor:

            async def run(code):
                return await executor.execute_code_blocks(
                    [CodeBlock(code=code, language="python")], CancellationToken()
                )

            first = await run("x = 6\nprint('hi')")
            assert (first.exit_code, first.output.strip()) == (0, "hi"), first
            second = await run("print(x * 7)")
            assert (second.exit_code, second.output.strip()) == (0, "42"), second
            failed = await run("1 / 0")
            assert failed.exit_code != 0 and "ZeroDivisionError" in failed.output, failed


async def open_webui_runs():
    """As Open WebUI does: no body, the token in the query, and the msg_type beside the header."""
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{url}/api/kernels", params={"token": token}) as response:
            kernel = (await response.json())["id"]
        socket_url = f"{url.replace('http', 'ws')}/api/kernels/{kernel}/channels?token={token}"
        async with session.ws_connect(socket_url) as socket:
            header = {
                "msg_id": uuid.uuid4().hex,
                "msg_type": "execute_request",
                "username": "user",
                "session": uuid.uuid4().hex,
                "date": "",
                "version": "5.3",
            }
            await socket.send_str(
                json.dumps(
                    {
                        "header": header,
                        "parent_header": {},
                        "metadata": {},
                        "channel": "shell",
                        "content": {
                            "code": "print(6 * 7)",
                            "silent": False,
                            "store_history": True,
                            "user_expressions": {},
                            "allow_stdin": False,
                            "stop_on_error": True,
                        },
                    }
                )
            )
            printed = ""
            while True:
                message = json.loads((await socket.receive()).data)
                if message.get("parent_header", {}).get("msg_id") != header["msg_id"]:
                    continue
                if message["msg_type"] == "stream":
                    printed += message["content"]["text"]
                elif message["content"].get("execution_state") == "idle":
                    break
            assert printed == "42\n", printed
        at = f"{url}/api/kernels/{kernel}"
        async with session.delete(at, params={"token": token}) as response:
            assert response.status == 204, response


nbclient_runs()
papermill_runs()
nbconvert_runs()
asyncio.run(autogen_runs())
asyncio.run(open_webui_runs())
print("passed")
