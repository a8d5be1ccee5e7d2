"""Packages that are installed while the kernel runs can be imported, in the same execution too."""

import os
import pathlib
import sys
import tempfile
import zipfile

from harness import KernelTest

MAKE = pathlib.Path(__file__).parents[2] / "protocol/src/one_python/make_packages.py"


def write_wheel(directory, name, version, files=()):
    """A wheel with a module, a program and these files; its path."""
    path = pathlib.Path(directory, "%s-%s-py3-none-any.whl" % (name, version))
    info = "%s-%s.dist-info/" % (name, version)
    with zipfile.ZipFile(path, "w") as wheel:
        body = "VERSION = %r\ndef main(): print(VERSION)\n" % version
        for file, text in {
            name + ".py": body,
            info + "METADATA": "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version),
            info + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            info + "entry_points.txt": "[console_scripts]\n%s-tool = %s:main\n" % (name, name),
            info + "RECORD": "",
            **dict(files),
        }.items():
            wheel.writestr(file, text)
    return str(path)


class Packages(KernelTest):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.interpreter = sys.executable
        self.wheels, self.workdir = (os.path.join(scratch.name, name) for name in ("wheels", "w"))
        os.mkdir(self.wheels)
        os.mkdir(self.workdir)
        self.begin()

    def begin(self):
        """Starts a kernel with a `pip` and a directory for packages, as the agent sets them up."""
        self.root = os.path.join(self.workdir, ".vivarium/packages")
        programs = os.path.join(self.workdir, "bin")
        os.makedirs(programs, exist_ok=True)
        python = os.path.join(self.root, "bin/python")
        pip = pathlib.Path(programs, "pip")
        pip.write_text(
            '#!/bin/sh\n[ -x %s ] || %s -s %s %s || exit 1\nexec %s -m pip "$@"\n'
            % (python, sys.executable, MAKE, self.root, python)
        )
        pip.chmod(0o755)
        path = "%s:%s/bin:%s" % (programs, self.root, os.environ["PATH"])
        self.kernel = self.start(
            VIVARIUM_PACKAGES=self.root,
            PATH=path,
            PIP_NO_INDEX="1",
            PIP_DISABLE_PIP_VERSION_CHECK="1",
        )

    def install(self, *arguments):
        return "%%pip install -q --no-deps %s" % " ".join(arguments)

    def test_an_installed_package_is_imported_by_the_same_execution(self):
        self.run_error("import tiny", "ModuleNotFoundError")
        wheel = write_wheel(self.wheels, "tiny", "1.0")
        code = "%s\nimport tiny\ntiny.VERSION" % self.install(wheel)
        self.assertEqual(self.run_ok(code).value, "'1.0'")
        self.assertEqual(self.run_ok("!tiny-tool").stdout, "1.0\n")
        code = "import subprocess, sys\n"
        code += "subprocess.check_output([sys.executable, '-c', 'import tiny; tiny.main()'])"
        self.assertEqual(self.run_ok(code).value, "b'1.0\\n'")
        self.run_ok("%pip uninstall -qy tiny")
        self.run_error("import sys\ndel sys.modules['tiny']\nimport tiny", "ModuleNotFoundError")

    def test_a_package_that_a_subprocess_installs_is_found(self):
        wheel = write_wheel(self.wheels, "tiny", "1.0")
        code = "import subprocess\ntry:\n    import tiny\nexcept ImportError:\n    "
        code += "subprocess.check_call(['pip', 'install', '-q', %r])\n" % wheel
        self.assertEqual(self.run_ok(code + "import tiny\ntiny.VERSION").value, "'1.0'")

    def test_an_upgrade_of_an_imported_module_is_told_and_comes_with_the_next_kernel(self):
        first, second = (write_wheel(self.wheels, "tiny", version) for version in ("1.0", "2.0"))
        answer = self.run_ok(self.install(first) + "\nimport tiny")
        self.assertNotIn("reset", answer.stderr)
        answer = self.run_ok(self.install("-U", second) + "\ntiny.VERSION")
        self.assertEqual(answer.value, "'1.0'")
        self.assertIn("vivarium: tiny was imported before it was installed: reset", answer.stderr)
        self.begin()
        self.assertEqual(self.run_ok("import tiny\ntiny.VERSION").value, "'2.0'")

    def test_the_sessions_packages_come_before_the_interpreters(self):
        files = {"pip/__init__.py": "MINE = True\n"}
        self.run_ok(self.install(write_wheel(self.wheels, "tiny", "1.0", files)))
        self.assertEqual(self.run_ok("import pip\npip.MINE").value, "True")

    def test_pth_files_are_executed_now_and_in_the_next_kernel(self):
        files = {
            "a.pth": "import builtins; builtins.seen = 'pth'\n",
            "b.pth": "import sys; sys.exit(3)\n",
        }
        wheel = write_wheel(self.wheels, "tiny", "1.0", files)
        answer = self.run_ok(self.install(wheel) + "\nseen")
        self.assertEqual(answer.value, "'pth'")
        self.begin()
        self.assertEqual(self.run_ok("seen").value, "'pth'")
        self.assert_usable()

    def test_magics_stand_in_any_statement_and_python_is_left_alone(self):
        wheel = write_wheel(self.wheels, "tiny", "1.0")
        line = self.install(wheel)
        code = "import asyncio\nif True:\n    for i in range(1):\n        %s\n" % line
        code += "await asyncio.sleep(0)\nimport tiny\ntiny.VERSION"
        self.assertEqual(self.run_ok(code).value, "'1.0'")
        self.run_ok("path = %r" % wheel)
        self.assertIn("Requirement already", self.run_ok("%pip install tiny").stdout)
        self.run_ok("%pip install -q --force-reinstall \\\n  {path}")
        self.run_ok("def f(p):\n    %pip install -q --force-reinstall $p\nf(path)")
        self.assert_value("pip = install = 7\n(9\n%pip)", "2")
        self.assert_value("'''\n%pip install x\n'''", "'\\n%pip install x\\n'")
        self.run_error("x = 3 %pip install y", "SyntaxError")

    def test_what_cannot_be_installed_leaves_an_exit_code_and_the_rest_runs(self):
        answer = self.run_ok("%pip install no-such-package\n_exit_code")
        self.assertEqual(answer.value, "1")
        self.assertIn("No matching distribution", answer.stderr)
        self.assertIn("conda is not here", self.run_ok("%conda install x\n5").stderr)

    def test_what_hostile_code_puts_in_the_directory_harms_only_its_imports(self):
        packages = "lib/python%d.%d/site-packages" % sys.version_info[:2]
        for change in (
            "os.makedirs(d); open(d + '/x.pth', 'wb').write(bytes(range(256)))",
            "os.makedirs(d); os.mkfifo(d + '/y.pth'); os.symlink('/dev/zero', d + '/z-1.dist-info')",
            "os.makedirs(d + '/q-1.dist-info/RECORD')",
            "os.makedirs(r); os.symlink('/nowhere', r + '/bin')",
            "os.makedirs(os.path.dirname(d)); open(d, 'w').close()",
            "os.mkdir(os.path.dirname(r)); os.symlink(r, r)",
        ):
            code = "import os, shutil; r = %r; d = r + '/' + %r\n" % (self.root, packages)
            code += "shutil.rmtree(os.path.dirname(r), ignore_errors=True)\n"
            self.run_ok(code + change)
            self.assertEqual(self.run_ok("1 + 1").value, "2", change)
            self.begin()
            self.run_ok("!echo install")
            self.assert_usable()
