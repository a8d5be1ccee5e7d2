import atexit
import os
import sys
from importlib.util import find_spec
from runpy import run_module

OFFLINE = (
    "vivarium: this session reaches no package index, by its network or for want of one, so pip "
    "can use only files that are in the session"
)


def main():
    if find_spec("pip") is None:
        sys.exit("pip: the Python of this session, %s, has no pip" % sys.executable)
    sys.argv[0] = "pip"
    write, said = sys.stderr.write, []

    def note_missing(text):
        if "No matching distribution" in text and not said:
            said.append(atexit.register(write, OFFLINE + "\n"))
        return write(text)

    if os.environ.get("PIP_NO_INDEX"):
        sys.stderr.write = note_missing
    run_module("pip", run_name="__main__", alter_sys=True)


main()
