"""Builds an environment: installs what is asked for into a directory, with uv.

Run inside a session of its own, by the base environment's interpreter, with the order as JSON on
standard input. All that is printed is the build's log. What is built may be hostile: nothing here
is believed by anybody outside.
"""

import json
import os
import shutil
import site
import subprocess
import sys

VERSION = "python%d.%d" % sys.version_info[:2]


def main():
    os.dup2(1, 2)
    order = json.load(sys.stdin)
    root = order["root"]
    # A trial's cache may be there.
    scratch = make(root, ".build")
    try:
        install(order, root, scratch)
    finally:
        if order["is_trial"]:
            clear(root, scratch)
    if not order["is_trial"]:
        shutil.rmtree(scratch)
        compile_all(root)


def install(order, root, scratch):
    make_environment(root)
    variables = dict(os.environ, **settings_of_uv(scratch))
    for name in ("PIP_PYTHON", "VIRTUAL_ENV", "UV_PYTHON"):
        variables.pop(name, None)
    run = runner(order["uv"], variables, scratch)
    python = os.path.join(root, "bin", "python")
    arguments = ["pip", "install", "--python", python]
    if order["requirements"] is not None:
        write(scratch, "requirements.txt", order["requirements"])
        arguments += ["-r", "requirements.txt"]
    else:
        write(scratch, "pyproject.toml", order["pyproject"])
        if order["lock"] is None:
            arguments += ["-r", "pyproject.toml"]
        else:
            write(scratch, "uv.lock", order["lock"])
            run(
                "export",
                "--frozen",
                "--no-dev",
                "--no-emit-project",
                "--quiet",
                "--python",
                python,
                "-o",
                "locked.txt",
            )
            arguments += ["-r", "locked.txt"]
    if order["require_hashes"]:
        arguments.append("--require-hashes")
    if order["wheels_only"]:
        arguments.append("--no-build")
    if order["is_trial"]:
        arguments.append("--dry-run")
    run(*arguments)


def clear(root, kept):
    for entry in os.scandir(root):
        if entry.path == kept:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.remove(entry.path)


def settings_of_uv(scratch):
    # In the environment's own filesystem, so that uv links files instead of copying them.
    return {
        "UV_CACHE_DIR": os.path.join(scratch, "cache"),
        "TMPDIR": make(scratch, "tmp"),
        "HOME": make(scratch, "home"),
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
        # What setuptools and others write into files, so that equal inputs make equal environments.
        "SOURCE_DATE_EPOCH": "315532800",
    }


def make_environment(root):
    """A virtual environment that also sees what the base environment's interpreter can import."""
    packages = os.path.join(root, "lib", VERSION, "site-packages")
    programs = os.path.join(root, "bin")
    os.makedirs(packages)
    os.mkdir(programs)
    own = os.path.abspath(sys.executable)
    base = os.path.realpath(getattr(sys, "_base_executable", None) or own)
    lines = ["home = " + os.path.dirname(base), "include-system-site-packages = false"]
    write(root, "pyvenv.cfg", "\n".join(lines + ["version = %d.%d.%d" % sys.version_info[:3], ""]))
    directories = [path for path in site.getsitepackages() if os.path.isdir(path)]
    lines = ["import site; site.addsitedir(%r)\n" % path for path in directories]
    write(packages, "_vivarium_base.pth", "".join(lines))
    for link, target in (("python", own), ("python3", "python"), (VERSION, "python")):
        os.symlink(target, os.path.join(programs, link))


def runner(uv, variables, directory):
    def run(*arguments):
        print("$ uv " + " ".join(arguments), flush=True)
        code = subprocess.run([uv, *arguments], env=variables, cwd=directory).returncode
        if code:
            sys.exit("vivarium: uv ended with %d" % code)

    return run


def compile_all(root):
    """Sessions cannot write bytecode there. By hash, so that it does not depend on the time."""
    command = [
        sys.executable,
        "-I",
        "-S",
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
        os.path.join(root, "lib"),
    ]
    # A package may have files that are no Python of this version.
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make(*parts):
    path = os.path.join(*parts)
    os.makedirs(path, exist_ok=True)
    return path


def write(directory, name, text):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
        file.write(text)


main()
