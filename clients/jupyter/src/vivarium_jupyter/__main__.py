"""The command `vivarium-jupyter`."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Optional

from jupyter_client.kernelspec import KernelSpecManager
from vivarium_client import Client

from ._version import __version__


def main(argv: Optional[list[str]] = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(
        prog="vivarium-jupyter", description="A Jupyter kernel whose code runs in Vivarium."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True)

    command = commands.add_parser("install", help="install a kernelspec")
    where = command.add_mutually_exclusive_group()
    where.add_argument("--user", action="store_true", help="for this user (the default)")
    where.add_argument("--sys-prefix", action="store_true", help="into this Python's environment")
    where.add_argument("--prefix", help="below PREFIX/share/jupyter/kernels")
    command.add_argument("--name", default="vivarium", help="default: %(default)s")
    command.add_argument("--display-name", help="what frontends show")
    command.add_argument("--environment", help="the daemon's environment that code runs in")
    command.add_argument("--url", help="the daemon: http://HOST:PORT or unix:/PATH")
    command.set_defaults(run=_install)

    command = commands.add_parser("launch", help="run the kernel, as Jupyter does")
    command.add_argument("-f", dest="connection_file", required=True)
    command.add_argument("--environment")
    command.set_defaults(run=_launch)

    arguments = parser.parse_args(argv)
    try:
        arguments.run(arguments)
    except (OSError, ValueError) as error:
        parser.exit(1, f"vivarium-jupyter: {error}\n")


def kernelspec(
    display_name: Optional[str], environment: Optional[str], url: Optional[str]
) -> dict[str, Any]:
    """Returns the content of `kernel.json`.

    It never has a token: the file can be read by others. The kernel takes `VIVARIUM_TOKEN` from
    the process that starts it.
    """
    argv = [sys.executable, "-m", "vivarium_jupyter", "launch", "-f", "{connection_file}"]
    if environment is not None:
        argv += ["--environment", environment]
    if url is not None:
        # Refuses what is no URL, and what has a user or password in it.
        Client(url).close()
    return {
        "argv": argv,
        "display_name": display_name
        or ("Python (Vivarium)" if environment is None else f"Python (Vivarium, {environment})"),
        "language": "python",
        "interrupt_mode": "message",
        "env": {} if url is None else {"VIVARIUM_URL": url},
        "metadata": {"debugger": False},
    }


def _install(arguments: argparse.Namespace) -> None:
    spec = kernelspec(arguments.display_name, arguments.environment, arguments.url)
    prefix = sys.prefix if arguments.sys_prefix else arguments.prefix
    with tempfile.TemporaryDirectory() as directory:
        # The copy has the mode of the directory.
        Path(directory).chmod(0o755)
        Path(directory, "kernel.json").write_text(json.dumps(spec, indent=1) + "\n")
        where = KernelSpecManager().install_kernel_spec(
            directory, arguments.name, user=prefix is None, prefix=prefix
        )
    sys.stdout.write(f"installed {arguments.name} in {where}\n")


def _launch(arguments: argparse.Namespace) -> None:
    # What installs needs none of ipykernel.
    from ipykernel.kernelapp import IPKernelApp  # noqa: PLC0415

    from .kernel import VivariumKernel  # noqa: PLC0415

    VivariumKernel.environment = arguments.environment
    app = IPKernelApp.instance(kernel_class=VivariumKernel)
    app.initialize(["-f", arguments.connection_file])
    app.start()
    # It still publishes the end of the shutdown. ipykernel ends it only after it has closed the
    # socket, which may leave it hanging.
    app.control_thread.stop()
    app.control_thread.join()


if __name__ == "__main__":
    main()
