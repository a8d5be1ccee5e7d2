"""Writes a package that does what a test wants: `make_package.py DIRECTORY KIND MARKER`.

`pth` is a wheel whose .pth file runs when any Python has it on its path. The others are source
distributions with a build backend of their own, which runs while they are built: `attack` tries to
get out, `link`, `setuid` and `fifo` plant something into the environment, `wait` never ends.
"""

import io
import pathlib
import sys
import tarfile
import zipfile

PTH = """\
import sys; sys.planted = True
import os; status = open('/proc/self/status').read()
import os; exec("try:\\n open(%r, 'a').write(status)\\nexcept OSError: pass")
"""

BACKEND = """\
import os, socket, time, zipfile

KIND, MARKER, ROOT = %r, %r, "/.vivarium/environment"


def attempt(what):
    try:
        what()
        return "done"
    except OSError as error:
        return error.strerror or type(error).__name__


def attack():
    other = socket.socket()
    return {
        "marker": attempt(lambda: open(MARKER, "a").write("ran")),
        "shadow": attempt(lambda: open("/etc/shadow").read()),
        "host": attempt(lambda: os.listdir(os.path.dirname(MARKER))),
        "network": attempt(lambda: other.connect(("192.0.2.1", 80))),
        "usr": attempt(lambda: open("/usr/lib/planted", "w")),
        "kill": attempt(lambda: os.kill(os.getppid() + 100000, 9)),
    }


def plant():
    if KIND == "link":
        os.symlink("/etc/passwd", ROOT + "/lib/planted")
    elif KIND == "setuid":
        open(ROOT + "/bin/planted", "w").close()
        os.chmod(ROOT + "/bin/planted", 0o4755)
    elif KIND == "fifo":
        os.mkfifo(ROOT + "/lib/planted")
    elif KIND == "fill":
        open(ROOT + "/lib/planted", "wb").write(bytes(20 << 20))
    elif KIND == "wait":
        open(ROOT + "/waits", "w").close()
        time.sleep(3600)


def build_wheel(directory, config_settings=None, metadata_directory=None):
    found = attack() if KIND == "attack" else {}
    plant()
    name = "%%s-1.0-py3-none-any.whl" %% KIND
    info = "%%s-1.0.dist-info/" %% KIND
    with zipfile.ZipFile(os.path.join(directory, name), "w") as wheel:
        wheel.writestr(KIND + ".py", "FOUND = %%r\\n" %% found)
        text = "Metadata-Version: 2.1\\nName: %%s\\nVersion: 1.0\\n" %% KIND
        wheel.writestr(info + "METADATA", text)
        text = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr(info + "WHEEL", text)
        wheel.writestr(info + "RECORD", "")
    return name
"""

PROJECT = """\
[project]
name = "%s"
version = "1.0"

[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


def main(directory, kind, marker):
    if kind == "pth":
        info = "pth-1.0.dist-info/"
        with zipfile.ZipFile(pathlib.Path(directory, "pth-1.0-py3-none-any.whl"), "w") as wheel:
            wheel.writestr("planted.pth", PTH % marker)
            wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: pth\nVersion: 1.0\n")
            wheel.writestr(
                info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(info + "RECORD", "")
        return
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % kind,
        "pyproject.toml": PROJECT % kind,
        "backend.py": BACKEND % (kind, marker),
    }
    with tarfile.open(pathlib.Path(directory, kind + "-1.0.tar.gz"), "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo("%s-1.0/%s" % (kind, name))
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))


main(*sys.argv[1:])
