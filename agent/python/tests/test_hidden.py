"""Which paths a distribution has that is to be hidden: inspect_interpreter.py."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "kernel", "inspect_interpreter.py")

LIBRARIES = ("lib", "lib64") if sys.maxsize > 1 << 32 else ("lib",)


class Hidden(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = os.path.realpath(directory.name)
        self.site = os.path.join(self.root, "site-packages")

    def write(self, name, text=""):
        path = os.path.join(self.site, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def install(self, metadata, *files):
        """Files and the list of them."""
        listed = "".join('"%s",sha256=x,1\n' % name for name in files)
        self.write(metadata + ".dist-info/RECORD", listed + metadata + ".dist-info/RECORD,,\n")
        for name in files:
            self.write(name)

    def hidden(self, *names, interpreter=sys.executable, path=None):
        answer = subprocess.run(
            [interpreter, "-s", SCRIPT, *names],
            input=b"{}",
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": path or self.site},
            check=True,
        ).stdout
        answer = json.loads(answer.rpartition(b"vivarium-inspect:")[2])
        start = self.root + "/"
        paths = [it[len(start) :] for it in answer["hidden"] if it.startswith(start)]
        return [it.replace("site-packages/", "", 1) for it in paths], answer["missing"]

    def test_a_package_that_others_have_files_in_is_hidden_in_part(self):
        self.install("gone-1", "zope/__init__.py", "zope/gone/a.py", "alone/b.py")
        self.install("stays-1", "zope/__init__.py", "zope/stays/c.py")
        found = ["alone", "gone-1.dist-info", "zope/__init__.py", "zope/gone"]
        self.assertEqual(self.hidden("gone"), (found, []))
        together, _ = self.hidden("gone", "stays")
        self.assertEqual(together, ["alone", "gone-1.dist-info", "stays-1.dist-info", "zope"])

    def test_compiled_code_of_a_module_is_hidden_without_being_listed(self):
        self.install("gone-1", "six.py", "a,b.py")
        self.write("__pycache__/six.cpython-312.pyc")
        self.write("__pycache__/sixty.cpython-312.pyc")
        found = ["__pycache__/six.cpython-312.pyc", "a,b.py", "gone-1.dist-info", "six.py"]
        self.assertEqual(self.hidden("gone"), (found, []))

    def test_without_a_list_of_files_the_name_is_that_of_package_and_modules(self):
        for name in ("a_b/__init__.py", "a_b.libs/l.so", "a_bc.py", "_x.cpython-312.so"):
            self.write(name)
        self.write("A.B-1.egg-info")
        self.write("Listed-1.egg-info/top_level.txt", "_x\n")
        self.assertEqual(self.hidden("a-b"), (["A.B-1.egg-info", "a_b", "a_b.libs"], []))
        self.assertEqual(self.hidden("listed")[0], ["Listed-1.egg-info", "_x.cpython-312.so"])
        self.assertEqual(self.hidden("a-bc"), ([], ["a-bc"]))

    def test_a_distribution_of_which_only_metadata_is_found_is_missing(self):
        self.write("Foo-1.0.egg-info")
        self.write("bar.py")
        self.assertEqual(self.hidden("foo")[1], ["foo"])
        # Found whole elsewhere, the rest of it would stay.
        other = os.path.join(self.root, "other")
        self.site, first = other, self.site
        self.install("foo-2", "foo/__init__.py")
        self.assertEqual(self.hidden("foo", path=other)[1], [])
        self.assertEqual(self.hidden("foo", path=first + ":" + other)[1], ["foo"])
        os.rename(os.path.join(first, "bar.py"), os.path.join(first, "foo.py"))
        self.assertEqual(self.hidden("foo", path=first)[1], [])

    def test_what_lies_apart_from_metadata_is_hidden_but_not_what_others_have(self):
        other = os.path.join(self.root, "dist-packages")
        self.write("Gone-1.egg-info/top_level.txt", "gone\n_gone\n")
        self.write("gone/__init__.py")
        for name in ("gone/compiled.so", "_gone/ours.py", "_gone/theirs.py", "goner.py"):
            self.write("../dist-packages/" + name)
        path = self.site + ":" + other
        found = ["dist-packages/_gone", "dist-packages/gone", "Gone-1.egg-info", "gone"]
        self.assertEqual(self.hidden("gone", path=path), (found, []))
        self.write("../dist-packages/stays-1.dist-info/RECORD", "_gone/theirs.py,,\n")
        self.assertEqual(self.hidden("gone", path=path), (found[1:], []))

    def test_sources_of_an_editable_distribution_are_hidden(self):
        source = os.path.join(self.root, "project")
        os.makedirs(os.path.join(source, "package"))
        self.install("gone-1", "__editable__.gone-1.pth")
        self.write("__editable__.gone-1.pth", source + "\n")
        found = ["project/package", "__editable__.gone-1.pth", "gone-1.dist-info"]
        self.assertEqual(self.hidden("gone"), (found, []))

    def test_paths_through_links_are_named_both_ways(self):
        self.install("gone-1", "gone/__init__.py")
        os.symlink(self.root, os.path.join(self.root, "link"))
        linked = os.path.join(self.root, "link", "site-packages")
        found = ["link/gone", "link/gone-1.dist-info", "gone", "gone-1.dist-info"]
        self.assertEqual(self.hidden("gone", path=linked), (found, []))

    def test_programs_and_what_an_environment_is_based_on_are_hidden_but_never_python(self):
        environment = os.path.join(self.root, "environment")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        interpreter = os.path.join(environment, "bin", "python3")
        version = "python%d.%d" % sys.version_info[:2]
        site = os.path.join(environment, "lib", version, "site-packages")
        self.site = site
        program = "../../../bin/gone"
        self.install("gone-1", program, "../../../../outside")
        self.write(
            "gone-1.dist-info/RECORD",
            "%s,,\n../../../bin/python3,,\n../../../../outside,,\n" % program,
        )
        found, missing = self.hidden("gone", interpreter=interpreter, path="/nonexistent")
        # lib64 is a link to lib.
        metadata = ["environment/%s/%s/gone-1.dist-info" % (lib, version) for lib in LIBRARIES]
        self.assertEqual((found, missing), (["environment/bin/gone", *metadata], []))
        # What only the base has is not on the path, and any code could add it.
        base = subprocess.run(
            [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            stdout=subprocess.PIPE,
            check=True,
        )
        with os.scandir(base.stdout.decode().strip()) as entries:
            names = [it.name.split("-")[0] for it in entries if it.name.endswith(".dist-info")]
        if names:
            self.assertEqual(
                self.hidden(names[0], interpreter=interpreter, path="/nonexistent")[1], []
            )
