"""Code with a file name runs as `python FILE` would run the file."""

import os
import unittest

from harness import KernelTest

POOL = """
import multiprocessing, sys, helper

def double(number):
    return helper.twice(number), __name__

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with context.Pool(2) as pool:
        print(pool.map(double, [1, 2]))
"""


class Script(KernelTest):
    def write(self, name, text):
        path = os.path.join(self.workdir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def run_file(self, name, text):
        path = self.write(name, text)
        return path, self.kernel.run(text, filename=name)

    def test_main_has_its_file_until_the_next_execution(self):
        path, answer = self.run_file("sub/a.py", "__file__, __name__, __spec__")
        self.assertEqual(answer.value, repr((path, "__main__", None)))
        answer = self.run_error("__file__", "NameError")
        self.assertEqual(self.run_ok("import sys\nsys.path[0]").value, "''")

    def test_a_name_that_is_no_file_is_the_name_in_tracebacks(self):
        answer = self.kernel.run("print(1)\n1/0", filename="notes.ipynb[3]")
        self.assertEqual(answer.exception, "ZeroDivisionError", answer)
        self.assertIn('  File "notes.ipynb[3]", line 2, in <module>\n    1/0\n', answer.traceback)
        self.run_error("__file__", "NameError")

    def test_tracebacks_have_the_path_and_the_lines_of_the_last_source(self):
        for text in ("def f():\n    raise KeyError(1)\nf()", "\n1/0"):
            path, answer = self.run_file("a.py", text)
            line = text.split("\n")[1].strip()
            self.assertIn('  File "%s", line 2, in ' % path, answer.traceback)
            self.assertIn("\n    %s\n" % line, answer.traceback)
            self.assertNotIn("vivarium", answer.traceback)
        # Where linecache has read the file before.
        self.write("b.py", "other\n")
        self.run_ok("import linecache, os\nlinecache.getlines(os.path.abspath('b.py'))")
        _, answer = self.run_file("b.py", "1/0  # as executed")
        self.assertIn("    1/0  # as executed\n", answer.traceback)

    def test_syntax_errors_have_the_path(self):
        path, answer = self.run_file("a.py", "x = 1\nx = = 2")
        self.assertIn('  File "%s", line 2\n    x = = 2\n' % path, answer.traceback)

    def test_the_source_of_functions_and_classes_is_found(self):
        text = "import inspect\nclass C:\n    def f(self): pass\ninspect.getsource(%s)"
        for name, source in (
            ("C", "class C:\n    def f(self): pass\n"),
            ("C.f", "    def f(self): pass\n"),
        ):
            _, answer = self.run_file("a.py", text % name)
            self.assertEqual(answer.value, repr(source), answer)

    def test_modules_beside_the_file_are_found_from_any_directory(self):
        self.write("sub/beside.py", "x = 7")
        _, answer = self.run_file("sub/a.py", "import os\nos.chdir('/')\nimport beside\nbeside.x")
        self.assertEqual(answer.value, "7", answer)

    def test_processes_of_every_start_method_find_main(self):
        self.write("helper.py", "def twice(x): return 2 * x")
        for method, name in (
            ("fork", "__main__"),
            ("spawn", "__mp_main__"),
            ("forkserver", "__mp_main__"),
        ):
            self.run_ok("import sys\nsys.argv[:] = ['pool.py', %r]" % method)
            _, answer = self.run_file("pool.py", POOL)
            self.assertEqual(answer.stdout, "%r\n" % [(2, name), (4, name)], answer)

    def test_many_sources_of_one_name_are_not_kept_for_ever(self):
        self.run_ok("import gc")
        for _ in range(1100):
            answer = self.kernel.run("len(In), sum(map(bool, In))", filename="a.py")
        self.assertEqual(answer.value, "(1102, 1000)")

    def test_a_name_of_the_kernels_is_not_taken(self):
        for name in ("<vivarium/kernel.py>", "<execution 1>"):
            answer = self.kernel.run("while True: print('go')", 1, filename=name)
            self.assertEqual(answer.completion, "interrupted", answer)
        self.assert_usable()


if __name__ == "__main__":
    unittest.main()
