"""A Jupyter kernel whose code runs in a session of Vivarium, and its kernelspec.

`vivarium-jupyter install` installs the kernelspec; Jupyter starts the kernel from it. The process
of the kernel runs no code of a notebook: it sends it to the daemon, and passes on what it answers.
"""

from ._version import __version__

__all__ = ["__version__"]
